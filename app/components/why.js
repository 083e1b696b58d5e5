// Why a number is what it is: a panel beside the page. Escape closes it and the keyboard is back where it was.
const panel = el("aside", "sv-why");
panel.setAttribute("role", "dialog");
panel.hidden = true;
root.append(panel);
let shown = null, from = null;

function close() {
  panel.hidden = true;
  if (from && from.isConnected) from.focus();
  from = null;
}
panel.addEventListener("keydown", (event) => { if (event.key === "Escape") { event.stopPropagation(); close(); } });
document.addEventListener("keydown", (event) => { if (event.key === "Escape" && element.isConnected && !panel.hidden) close(); });

function stepOf(row) {
  const item = el("li", "sv-why-step");
  item.style.setProperty("--depth", row.depth);
  const line = el("div", "sv-why-line");
  line.append(el("span", "sv-why-name", visible(row.label, false)), el("span", "sv-why-value", row.value));
  item.append(line);
  if (row.formula) item.append(el("code", "", visible(row.formula, false)));
  if (row.note) item.append(el("span", "sv-quiet", visible(row.note, false)));
  return item;
}

function inputOf(one) {
  const item = el("li", "sv-why-input");
  const line = el("div", "sv-why-line");
  line.append(el("span", "sv-why-name", visible(one.label, false)), el("span", "sv-why-value", one.value));
  const mark = el("span", "sv-badge", one.kind_text);
  mark.dataset.label = one.kind;
  const origin = el("div", "sv-why-origin");
  origin.append(mark, el("code", "", visible(one.path, false)));
  if (one.range) origin.append(el("span", "sv-quiet", one.range));
  item.append(line, origin);
  if (one.source) item.append(el("p", "sv-quiet", visible(one.source, false)));
  return item;
}

function update() {
  const v = props.value;
  if (!v || !v.n || v.n === shown) return;
  shown = v.n;
  if (panel.hidden) from = document.activeElement;
  panel.textContent = "";
  const head = el("header");
  const title = el("h3", "", visible(v.title, false));
  title.id = element.id + "-why";
  panel.setAttribute("aria-labelledby", title.id);
  const b = el("button", "sv-icon", "×");
  b.type = "button";
  b.setAttribute("aria-label", v.says.close);
  b.title = v.says.close;
  b.addEventListener("click", close);
  head.append(title, b);
  panel.append(head, el("p", "sv-why-result", v.value));
  for (const text of v.told) panel.append(el("p", "sv-quiet", visible(text, false)));
  if (v.steps.length) {
    const list = el("ol", "sv-why-steps");
    list.append(...v.steps.map(stepOf));
    panel.append(el("h4", "", v.says.steps), list);
  }
  if (v.inputs.length) {
    const list = el("ul", "sv-why-inputs");
    list.append(...v.inputs.map(inputOf));
    panel.append(el("h4", "", v.says.inputs), list);
  }
  panel.hidden = false;
  panel.scrollTop = 0;
  b.focus();
}
// A number that is other by now is not explained on.
for (const changed of ["sv-scenario", "sv-outdated"]) {
  document.addEventListener(changed, () => { if (element.isConnected && !panel.hidden) { panel.hidden = true; from = null; } });
}
watch("value", update);
