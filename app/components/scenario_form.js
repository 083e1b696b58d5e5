// The scenario's form. What is typed is kept here and sent whole each time, so that a message that was skipped is not
// missed. The server answers with what came of it: sentences for what cannot be, and the labels that changed.
let v = null, edits = {}, chosen = "base", seq = 0, table = null;
const rows = new Map(); // path -> the nodes that show it: { slider, cells: { field: [inputs] }, notes: [..], .. }
const form = el("div", "sv-form");
root.append(form);
// The keyboard goes as the eye does: tabs, form, figures. Gradio puts what is beside gr.Tabs behind all of it. Its tabs
// may be made later than this view: it is asked for again whenever the form is drawn. A move would lose the focus.
function takePlace() {
  const column = element.closest("#sv-scenario"), strip = document.querySelector("#sv-tabs > .tab-wrapper");
  if (column && strip && column.previousElementSibling !== strip) strip.after(column);
}
takePlace();

// The mailbox (scenario_sent.js) carries it: a component of its own, so that no answer can overwrite what waits in it.
function send() {
  seq += 1;
  document.dispatchEvent(new CustomEvent("sv-scenario", { detail: { id: v.id, seq, edits, case: chosen } }));
}

function change(path, field, given, from) {
  (edits[path] ||= {})[field] = given;
  const row = rows.get(path);
  const text = typeof given === "number" ? shownNumber(given) : given;
  for (const input of row.cells[field] || []) if (input !== from) input.value = text;
  row.reset.forEach((b) => { b.hidden = false; });
  send();
}

function undo(...paths) {
  for (const path of paths) takeBack(path);
  send();
}

function takeBack(path) {
  delete edits[path];
  const row = rows.get(path);
  if (row) { // a number of the table has none before the table was opened
    row.now = null;
    fill(row, row.first, true);
    row.reset.forEach((b) => { b.hidden = true; });
  }
}

// Three digits are what a slider can be set to; more would look like knowledge.
const digits = new Intl.NumberFormat("en", { maximumSignificantDigits: 3, useGrouping: false });
function shownNumber(x) {
  return new Intl.NumberFormat(v.language, { maximumSignificantDigits: 12 }).format(x);
}

// ---- one number ------------------------------------------------------------------------------------------------
function rowOf(path, cells) {
  if (!rows.has(path)) rows.set(path, { path, first: cells, slider: null, cells: {}, notes: [], badges: [], cases: [], reset: [] });
  return rows.get(path);
}

function fieldBox(row, field, label) {
  const box = el("input", "sv-box" + (field === "source" ? " sv-box-text" : ""));
  box.type = "text";
  box.autocomplete = "off";
  box.spellcheck = false;
  if (field !== "source") box.inputMode = "decimal";
  box.setAttribute("aria-label", label);
  box.addEventListener("change", () => change(row.path, field, box.value, box));
  (row.cells[field] ||= []).push(box);
  return box;
}

function labelBox(row, label) {
  const box = el("select", "sv-box");
  for (const one of v.labels) box.append(new Option(one.text, one.value));
  box.setAttribute("aria-label", label);
  box.addEventListener("change", () => change(row.path, "label", box.value, box));
  (row.cells.label ||= []).push(box);
  return box;
}

function resetButton(row, label) {
  const b = el("button", "sv-icon", "↺");
  b.type = "button";
  b.hidden = !edits[row.path];
  b.title = v.says.reset;
  b.setAttribute("aria-label", v.says.reset + ": " + label);
  b.addEventListener("click", () => undo(row.path));
  row.reset.push(b);
  return b;
}

function note(row) {
  const p = el("p", "sv-fault");
  p.hidden = true;
  p.id = element.id + "-note-" + row.path + "-" + row.notes.length;
  row.notes.push(p);
  return p;
}

function badge(row) {
  const b = el("span", "sv-badge");
  row.badges.push(b);
  return b;
}

function toSlider(s, x) {
  return s.log ? (1000 * Math.log(x / s.min)) / Math.log(s.max / s.min) : x;
}
function fromSlider(s, at) {
  if (!s.log) return Number(digits.format(Math.round(at / s.step) * s.step));
  return Number(digits.format(s.min * Math.pow(s.max / s.min, at / 1000)));
}

function driverRow(one) {
  const row = rowOf(one.path, one.cells);
  const line = el("div", "sv-driver");
  line.dataset.path = one.path;
  const name = el("span", "sv-driver-name", one.label);
  const box = fieldBox(row, "value", one.label + (one.unit ? ", " + one.unit : ""));
  const top = el("div", "sv-driver-top");
  const mark = el("span", "sv-driver-mark");
  if (one.cells.label) mark.append(badge(row));
  const case_ = el("span", "sv-in-case");
  row.cases.push(case_);
  mark.append(case_, resetButton(row, one.label));
  top.append(name, mark);
  const slider = el("input", "sv-slider");
  slider.type = "range";
  const scale = { log: one.log, min: one.min, max: one.max, step: one.step };
  [slider.min, slider.max, slider.step] = one.log ? [0, 1000, 1] : [one.min, one.max, one.step];
  slider.setAttribute("aria-label", one.label);
  slider.addEventListener("input", () => {
    const x = fromSlider(scale, Number(slider.value));
    slider.setAttribute("aria-valuetext", shownNumber(x) + " " + one.unit);
    change(one.path, "value", x, slider);
  });
  row.slider = slider;
  row.scale = scale;
  const under = el("div", "sv-driver-under");
  under.append(slider, box, el("span", "sv-unit", one.unit));
  line.append(top, under, note(row));
  return line;
}

// What a number is now; a box that is being typed in, or whose text was refused, is left as it is.
function fill(row, cells, all) {
  for (const [field, inputs] of Object.entries(row.cells)) {
    for (const input of inputs) {
      const refused = v.faults[row.path + "|" + field] !== undefined;
      if (all || (input !== document.activeElement && !refused)) input.value = cells[field] ?? "";
    }
  }
  const x = row.path === "years" ? Number(cells.value) : cells.num;
  if (row.slider && row.slider !== document.activeElement && Number.isFinite(x)) {
    row.slider.value = toSlider(row.scale, x);
    row.slider.setAttribute("aria-valuetext", cells.value);
  }
  for (const b of row.badges) {
    b.textContent = v.labels.find((one) => one.value === cells.label)?.text || "";
    b.dataset.label = cells.label;
    b.title = cells.source || "";
  }
}

function drawFaults() {
  for (const row of rows.values()) {
    const mine = Object.entries(v.faults).filter(([key]) => key.split("|")[0] === row.path);
    for (const p of row.notes) {
      p.hidden = mine.length === 0;
      p.textContent = mine.map(([, text]) => text).join(" ");
    }
    for (const [field, inputs] of Object.entries(row.cells)) {
      const wrong = mine.some(([key]) => key === row.path + "|" + field);
      for (const input of inputs) {
        input.setAttribute("aria-invalid", String(wrong));
        if (wrong && row.notes[0]) input.setAttribute("aria-describedby", row.notes[0].id);
        else input.removeAttribute("aria-describedby");
      }
    }
    const at = v.in_case[row.path];
    for (const c of row.cases) c.textContent = at === undefined ? "" : v.says.in_case.split("{value}").join(at);
  }
}

// ---- all of it -------------------------------------------------------------------------------------------------
function cases() {
  const group = el("div", "sv-toggle sv-cases");
  group.setAttribute("role", "group");
  group.setAttribute("aria-label", v.says.case);
  for (const one of v.cases) {
    const b = el("button", "sv-toggle-button", one.text);
    b.type = "button";
    b.dataset.case = one.value;
    b.setAttribute("aria-pressed", String(one.value === chosen));
    b.addEventListener("click", () => {
      chosen = one.value;
      for (const other of group.children) other.setAttribute("aria-pressed", String(other === b));
      send();
    });
    group.append(b);
  }
  return group;
}

// One that has no number yet cannot be chosen; the first number that is entered for it opens it.
function openCases() {
  for (const one of v.cases) {
    const b = form.querySelector(`.sv-cases [data-case="${one.value}"]`);
    b.disabled = one.why !== "" && one.value !== chosen;
    b.title = one.why;
  }
}

function draw() {
  takePlace();
  rows.clear();
  table?.remove();
  table = null;
  form.textContent = "";
  edits = structuredClone(v.edits || {});
  chosen = v.case;
  seq = 0;
  form.setAttribute("role", "group");
  form.setAttribute("aria-label", v.says.form_label);
  // On a narrow screen the figures come first to sight: the form is opened there when it is wanted.
  const toggle = el("button", "sv-button sv-form-toggle", v.says.form_open);
  toggle.type = "button";
  toggle.setAttribute("aria-expanded", String(form.classList.contains("is-open")));
  toggle.addEventListener("click", () => toggle.setAttribute("aria-expanded", String(form.classList.toggle("is-open"))));
  form.append(cases(), toggle);
  for (const group of v.groups) {
    const box = el("section", "sv-group");
    const head = el("h4", "", group.title);
    if (group.kind) head.append(el("span", "sv-kind", group.kind));
    box.append(head, ...group.rows.map(driverRow));
    form.append(box);
  }
  const listed = el("section", "sv-group");
  listed.append(el("h4", "", v.says.options_listed));
  const list = el("ul", "sv-options");
  for (const option of v.options) {
    const item = el("li");
    item.append(el("strong", "", visible(option.name, false)), el("span", "sv-kind", option.kind), el("span", "sv-quiet", option.detail));
    list.append(item);
  }
  listed.append(list);
  const open = el("button", "sv-button", v.says.all_numbers);
  open.type = "button";
  open.id = "sv-all-numbers";
  open.addEventListener("click", () => { table ||= allNumbers(); showAll(); table.showModal(); });
  const again = el("button", "sv-button", v.says.reset_all);
  again.type = "button";
  again.addEventListener("click", () => undo(...Object.keys(edits)));
  const buttons = el("div", "sv-buttons");
  buttons.append(open, again);
  form.append(listed, buttons);
  for (const group of v.groups) for (const one of group.rows) fill(rows.get(one.path), one.cells, true);
  keepTyped();
  openCases();
  document.dispatchEvent(new CustomEvent("sv-outdated"));
}

// What was typed before the form was drawn anew, and could not be: it stands where it was typed.
function keepTyped() {
  for (const [path, fields] of Object.entries(edits)) {
    const row = rows.get(path);
    if (!row) continue;
    for (const [field, text] of Object.entries(fields)) for (const input of row.cells[field] || []) input.value = text;
    row.reset.forEach((b) => { b.hidden = false; });
  }
}

function showAll() {
  for (const group of v.table) for (const one of group.rows) {
    const row = rows.get(one.path);
    fill(row, row.now || one.cells, false);
  }
  keepTyped();
  drawFaults();
}

function update() {
  const given = props.value;
  if (!given || !given.id) { if (!v) form.textContent = ""; return; }
  // A tab that comes into sight may hand over once more what this form was drawn from; since then it was edited.
  if (given.groups && (!v || given.id !== v.id)) {
    v = given;
    draw();
  }
  drawFaults();
}

document.addEventListener("sv-scenario-answer", (event) => {
  const answer = event.detail;
  if (!element.isConnected || !v || answer.id !== v.id || answer.seq < seq) return; // of what has been typed over since
  v.faults = answer.faults;
  v.in_case = answer.in_case;
  v.cases = answer.cases;
  openCases();
  for (const [path, cells] of Object.entries(answer.echo)) {
    const row = rows.get(path);
    if (row) { row.now = cells; fill(row, cells, false); }
  }
  drawFaults();
});
watch("value", update);
