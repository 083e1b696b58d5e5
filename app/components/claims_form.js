// "Check my claim": what is typed stays here, whatever the server says of it; it answers with a sentence at a field.
let v = null;
const form = el("form", "sv-claim-fields");
form.noValidate = true;
form.autocomplete = "off";
root.append(form);
const boxes = new Map(), faults = new Map(); // field -> its input; field -> where its sentence goes
const options = { model: el("datalist"), draft: null };
options.model.id = element.id + "-models";

function boxOf(one) {
  if (v.choices[one.kind] && one.kind !== "model") {
    const select = el("select", "sv-box");
    for (const choice of v.choices[one.kind]) select.append(new Option(choice.text, choice.value));
    return select;
  }
  const input = el("input", "sv-box" + (one.kind === "model" ? " sv-box-text" : ""));
  input.type = "text";
  input.spellcheck = false;
  input.maxLength = v.most;
  if (one.kind === "model") input.setAttribute("list", options.model.id);
  else input.inputMode = "decimal";
  return input;
}

function fieldOf(one) {
  const line = el("div", "sv-claim-field");
  line.dataset.name = one.name;
  const label = el("label", "", one.label), box = boxOf(one), fault = el("p", "sv-fault");
  box.name = one.name;
  box.id = element.id + "-" + one.name;
  label.htmlFor = box.id;
  if (one.unit) label.append(el("span", "sv-unit", one.unit));
  fault.id = box.id + "-fault";
  fault.hidden = true;
  const below = el("div");
  if (one.info) {
    const info = el("p", "sv-quiet", one.info);
    info.id = box.id + "-info";
    below.append(info);
  }
  below.append(fault);
  line.append(label, box, below);
  boxes.set(one.name, box);
  faults.set(one.name, fault);
  return line;
}

function groupOf(group) {
  const box = el(group.fold ? "details" : "fieldset", group.fold ? "sv-fold" : "sv-claim-group");
  const fields = el("div", "sv-claim-grid");
  fields.append(...group.fields.map(fieldOf));
  box.append(el(group.fold ? "summary" : "legend", "", group.title), fields);
  return box;
}

function fill(typed) {
  for (const [name, box] of boxes) box.value = typed[name] || "";
}

function drawFaults(told) {
  for (const [name, p] of faults) {
    const text = told[name] || "";
    p.hidden = !text;
    p.textContent = visible(text, false);
    const box = boxes.get(name);
    if (!box) continue;
    box.setAttribute("aria-invalid", String(Boolean(text)));
    const by = [text && p.id, document.getElementById(box.id + "-info") && box.id + "-info"].filter(Boolean);
    if (by.length) box.setAttribute("aria-describedby", by.join(" "));
    else box.removeAttribute("aria-describedby");
    if (text && box.closest("details")) box.closest("details").open = true;
  }
  const first = [...boxes].find(([name]) => told[name]);
  if (first) first[1].focus();
}

function button(text, className, act) {
  const b = el("button", className, text);
  b.type = act ? "button" : "submit";
  if (act) b.addEventListener("click", act);
  return b;
}

function draw() {
  boxes.clear();
  faults.clear();
  options.model.replaceChildren(...v.choices.model.map((name) => new Option(name, name)));
  const whole = el("p", "sv-fault");
  whole.hidden = true;
  whole.setAttribute("role", "alert");
  const examples = el("p", "sv-claim-examples");
  examples.append(el("span", "sv-quiet", v.says.example));
  for (const one of v.examples) examples.append(button(one.text, "sv-link", () => { fill(one.typed); drawFaults({}); send(); }));
  const buttons = el("div", "sv-buttons");
  buttons.append(
    button(v.says.check, "sv-button sv-claim-check"),
    button(v.says.clear, "sv-button", () => { fill({}); drawFaults({}); boxes.values().next().value.focus(); }),
  );
  form.replaceChildren(options.model, examples, ...v.groups.map(groupOf), whole, buttons);
  faults.set("", whole);
  fill(v.typed);
}

function send() {
  trigger("check", { typed: Object.fromEntries(Array.from(boxes, ([name, box]) => [name, box.value])) });
}
form.addEventListener("submit", (event) => { event.preventDefault(); send(); });

function update() {
  const given = props.value;
  if (!given || !given.groups) return;
  const first = !v;
  v = given;
  if (first) draw();
  drawFaults(v.faults);
  // Where the answer stands below the form, it is brought into sight.
  const answer = document.querySelector("#sv-claims-answer");
  if (!first && !Object.keys(v.faults).length && Object.keys(v.typed).length && answer &&
      answer.getBoundingClientRect().top >= root.getBoundingClientRect().bottom) answer.scrollIntoView({ block: "start" });
}
watch("value", update);
update();
