// An exchange rate that a person gives, typed or as a bulletin's file. Nothing is filled in: no rate, no side, no source.
const MOST_BYTES = 1000000;
const box = el("details", "sv-fold sv-rates"), summary = el("summary"), now = el("p", "sv-told"), told = el("p", "sv-told");
const grid = el("div", "sv-rates-grid");
box.append(summary, grid, told);
root.append(now, box);
told.setAttribute("role", "status");
told.hidden = now.hidden = true;
let v = null, done = 0;

function field(key, node) {
  const label = el("label", "sv-pick");
  label.append(el("span", "", v.says[key]), node);
  node.dataset.name = key;
  return label;
}
function select(options, blank) {
  const node = el("select", "sv-box");
  if (blank) node.append(new Option(blank, ""));
  for (const one of options) node.append(new Option(one.text, one.value));
  return node;
}
function typed(type) {
  const node = el("input", "sv-box sv-box-text");
  node.type = type;
  node.autocomplete = "off";
  return node;
}
function button(key, act) {
  const b = el("button", "sv-button", v.says[key]);
  b.type = "button";
  b.dataset.name = key;
  b.addEventListener("click", act);
  return b;
}
function tell(text, tone) {
  told.hidden = !text;
  told.textContent = visible(text || "", false);
  told.dataset.tone = tone || "";
  if (text) told.setAttribute("role", tone === "fault" ? "alert" : "status");
}

function draw() {
  summary.textContent = v.says.open;
  grid.textContent = "";
  const money = v.currencies.map((code) => ({ value: code, text: code }));
  const currency = select(money, v.says.choose), base = select(money), rate = typed("text"), day = typed("date");
  const side = select(v.sides, v.says.choose), source = typed("text"), kind = select(v.kinds, v.says.choose);
  rate.inputMode = "decimal";
  source.maxLength = 80;
  day.max = v.today;
  const file = el("input", "sv-only-read");
  file.type = "file";
  file.accept = ".xml,text/xml,application/xml";
  file.tabIndex = -1;
  file.setAttribute("aria-hidden", "true");
  // Read here, so that no file is left on the server; as bytes, since a bulletin says its own encoding.
  file.addEventListener("change", async () => {
    const chosen = file.files[0];
    file.value = "";
    if (!chosen) return;
    if (chosen.size > MOST_BYTES) return tell(v.says.large, "fault");
    let bytes = "";
    for (const byte of new Uint8Array(await chosen.arrayBuffer())) bytes += String.fromCharCode(byte);
    trigger("bulletin", { currency: currency.value, kind: kind.value, base64: btoa(bytes) });
  });
  const use = button("use", () => trigger("rate", {
    currency: currency.value, base: base.value, value: rate.value, day: day.value, side: side.value, source: source.value,
  }));
  const first = el("div", "sv-rates-line"), second = el("div", "sv-rates-line");
  first.append(field("base", base), field("value", rate), field("day", day), field("side", side), field("source", source), use);
  second.append(field("kind", kind), button("file", () => file.click()), file);
  grid.append(field("currency", currency), el("p", "sv-quiet", v.says.type), first, el("p", "sv-quiet", v.says.upload), second);
}

function update() {
  const given = props.value;
  if (!given || !given.says) return;
  const fresh = v === null;
  if (!fresh && given.now !== v.now) document.dispatchEvent(new CustomEvent("sv-outdated")); // files and derivations
  v = given;
  if (fresh) draw();
  now.textContent = "";
  now.hidden = !v.now;
  if (v.now) now.append(el("span", "", visible(v.now, false) + " "), button("own", () => trigger("own", {})));
  if (v.n && v.n !== done) {
    done = v.n;
    tell(v.told, v.tone);
    if (v.tone === "gain") box.open = false;
  }
}
watch("value", update);
update();
