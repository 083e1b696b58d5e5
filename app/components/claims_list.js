// Published claims: found by verdict, by origin and by words, here in the browser. A claim that is opened is asked for.
let v = null, asked = null;
const picked = { verdicts: new Set(), origin: "", words: "" };
const chips = el("div", "sv-chips"), bar = el("div", "sv-claims-bar"), origins = el("div", "sv-toggle");
const search = el("input", "sv-box sv-box-text"), count = el("p", "sv-quiet"), scroll = el("div", "sv-scroll sv-claims-scroll");
const reset = el("button", "sv-button"), found = el("div", "sv-claims-found");
chips.setAttribute("role", "group");
origins.setAttribute("role", "group");
search.type = "search";
search.autocomplete = "off";
search.maxLength = 80;
count.setAttribute("role", "status");
reset.type = "button";
bar.append(search, origins);
found.append(count, reset);
root.append(chips, bar, found, scroll);

// Letters as this language folds them: "I" of Turkish is not "i".
const fold = (text) => text.toLocaleLowerCase(v.language);

function chip(one) {
  const b = el("button", "sv-chip");
  b.type = "button";
  b.dataset.label = one.value;
  b.append(el("span", "", one.text), el("strong", "", String(one.n)));
  b.addEventListener("click", () => {
    if (!picked.verdicts.delete(one.value)) picked.verdicts.add(one.value);
    sift();
  });
  return b;
}

function origin(value, text) {
  const b = el("button", "sv-toggle-button", text);
  b.type = "button";
  b.dataset.value = value;
  b.addEventListener("click", () => { picked.origin = value; sift(); });
  return b;
}

function cell(tag, head, ...parts) {
  const node = el(tag, "");
  if (head) node.dataset.head = head;
  const inside = el("span", "sv-cell");
  inside.append(...parts);
  node.append(inside);
  return node;
}
function words(text, className) {
  const node = el("span", className || "", visible(text, false));
  node.lang = "en"; // the claim's own, or its source's
  return node;
}

function rowOf(one) {
  const tr = el("tr");
  tr.dataset.id = one.id;
  const open = el("button", "sv-link", visible(one.claim, false));
  open.type = "button";
  open.lang = "en";
  const number = cell("th", "", el("span", "", one.id));
  number.scope = "row";
  const implied = one.implies ? [el("span", "sv-claim-implies", "→ " + one.implies), el("span", "sv-sub", one.step)] : [];
  const mark = el("span", "sv-badge", one.verdict_text);
  mark.dataset.label = one.verdict;
  tr.append(
    number,
    cell("td", "", open, words(one.source, "sv-sub")),
    cell("td", "", words(one.claimed), ...implied),
    cell("td", "", mark),
  );
  tr.addEventListener("click", (event) => { if (!getSelection().toString() || event.target === open) choose(one.id, true); });
  return tr;
}

function choose(id, ask) {
  asked = id;
  for (const tr of scroll.querySelectorAll("tbody tr")) tr.setAttribute("aria-current", String(tr.dataset.id === id));
  if (!ask) return;
  trigger("open", { id });
  // Where the detail stands below the list, it is brought into sight.
  const detail = document.querySelector("#sv-claims-one");
  if (detail && detail.getBoundingClientRect().top >= root.getBoundingClientRect().bottom) detail.scrollIntoView({ block: "start" });
}

function sift() {
  const wanted = fold(picked.words).split(/\s+/).filter(Boolean);
  let n = 0;
  v.rows.forEach((one) => {
    const tr = scroll.querySelector(`tr[data-id="${CSS.escape(one.id)}"]`);
    const fits = (!picked.verdicts.size || picked.verdicts.has(one.verdict)) && (!picked.origin || picked.origin === one.origin) &&
      wanted.every((word) => one.text.includes(word));
    tr.hidden = !fits;
    n += fits;
  });
  for (const b of chips.children) b.setAttribute("aria-pressed", String(picked.verdicts.has(b.dataset.label)));
  for (const b of origins.children) b.setAttribute("aria-pressed", String(picked.origin === b.dataset.value));
  count.textContent = n ? v.says.count.split("{n}").join(n).split("{total}").join(v.rows.length) : v.says.none;
  reset.hidden = n === v.rows.length;
}

function draw() {
  chips.replaceChildren(...v.verdicts.map(chip));
  chips.setAttribute("aria-label", v.says.verdicts);
  origins.replaceChildren(origin("", v.says.all), ...v.origins.map((one) => origin(one.value, one.text)));
  origins.setAttribute("aria-label", v.says.origin);
  search.placeholder = v.says.search;
  search.setAttribute("aria-label", v.says.search);
  search.value = picked.words;
  reset.textContent = v.says.clear;
  const table = el("table", "sv-table sv-dense sv-claims-table"), head = el("thead"), top = el("tr"), body = el("tbody");
  for (const text of [v.says.number, v.says.claim, v.says.claimed, v.says.verdict]) {
    const th = el("th", "", text);
    th.scope = "col";
    top.append(th);
  }
  head.append(top);
  for (const one of v.rows) {
    one.text = fold([one.id, one.claim, one.source, one.claimed, one.implies, one.step, one.verdict_text].join(" "));
    body.append(rowOf(one));
  }
  table.append(head, body);
  scroll.replaceChildren(table);
  scroll.tabIndex = 0;
  scroll.setAttribute("role", "region");
  scroll.setAttribute("aria-label", v.says.claim);
  sift();
}

search.addEventListener("input", () => { picked.words = search.value; sift(); });
reset.addEventListener("click", () => {
  picked.verdicts.clear();
  picked.origin = picked.words = search.value = "";
  sift();
  search.focus();
});

function update() {
  const given = props.value;
  if (!given || !given.rows) return;
  const first = !v;
  v = given;
  if (first || !scroll.firstChild) draw();
  choose(asked || v.chosen, false);
}
watch("value", update);
update();
