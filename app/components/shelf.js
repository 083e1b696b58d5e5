// Where scenarios come from and go to: those that ship, a file, and what this browser keeps. What is kept is TOML text
// in localStorage, so it is nobody else's; what is read back is checked by the server like any stranger's file.
const KEEP = "specscope.scenario.", MOST_BYTES = 1000000;
const shelf = el("div", "sv-shelf");
root.append(shelf);
let v = null, done = 0, asked = null;

const ship = el("select", "sv-box"), shipLabel = el("label", "sv-pick"), shipName = el("span");
shipLabel.append(shipName, ship);
const buttons = el("div", "sv-buttons");
const name = el("input", "sv-box sv-box-text");
name.type = "text";
name.maxLength = 80;
name.autocomplete = "off";
const keepLine = el("div", "sv-keep"), keptList = el("ul", "sv-kept"), told = el("p", "sv-told");
const file = el("input", "sv-only-read");
file.type = "file";
file.accept = ".toml,text/plain";
file.tabIndex = -1;
file.setAttribute("aria-hidden", "true");
told.setAttribute("role", "status");
told.hidden = true;

function button(key, act, className) {
  const b = el("button", className || "sv-button", v.says[key]);
  b.type = "button";
  b.id = "sv-shelf-" + key;
  b.addEventListener("click", act);
  return b;
}

function tell(text, tone) {
  told.hidden = !text;
  told.textContent = visible(text || "", false);
  told.dataset.tone = tone || "";
  if (text) told.setAttribute("role", tone === "fault" ? "alert" : "status");
}

// ---- what this browser keeps: it may be full, forbidden, or hold what something else has written ---------------
function kept() {
  const names = [];
  try {
    for (let i = 0; i < localStorage.length; i++) {
      const key = localStorage.key(i);
      if (key.startsWith(KEEP)) names.push(key.slice(KEEP.length));
    }
  } catch { return []; }
  return names.sort((a, b) => a.localeCompare(b));
}
function take(title) {
  try { return localStorage.getItem(KEEP + title); } catch { return null; }
}
function keep(title, text) {
  try {
    localStorage.setItem(KEEP + title, text);
    tell(v.says.kept_done.split("{name}").join(title), "gain");
  } catch { tell(v.says.kept_full, "fault"); }
  listKept();
}

function listKept() {
  keptList.textContent = "";
  const names = kept();
  if (!names.length) keptList.append(el("li", "sv-quiet", v.says.kept_none));
  for (const title of names) {
    const item = el("li");
    const open = el("button", "sv-link", visible(title, false));
    open.type = "button";
    open.title = v.says.kept_open;
    open.addEventListener("click", () => trigger("open", { text: take(title), name: title }));
    const compare = el("button", "sv-button", v.says.kept_compare);
    compare.type = "button";
    compare.setAttribute("aria-label", v.says.kept_compare + ": " + title);
    compare.addEventListener("click", () => trigger("compare", { text: take(title), name: title }));
    const gone = el("button", "sv-button", v.says.kept_delete);
    gone.type = "button";
    gone.setAttribute("aria-label", v.says.kept_delete + ": " + title);
    // Asked twice, in place: what is deleted is nowhere else.
    gone.addEventListener("click", () => {
      if (asked !== title) { asked = title; gone.textContent = v.says.kept_really; gone.classList.add("sv-really"); return; }
      asked = null;
      try { localStorage.removeItem(KEEP + title); } catch { /* it is listed on, which says so */ }
      listKept();
      name.focus();
    });
    gone.addEventListener("blur", () => { if (asked === title) { asked = null; gone.textContent = v.says.kept_delete; gone.classList.remove("sv-really"); } });
    item.append(open, compare, gone);
    keptList.append(item);
  }
}

// ---- a file: read here, so that none is left on the server -----------------------------------------------------
file.addEventListener("change", async () => {
  const chosen = file.files[0];
  file.value = "";
  if (!chosen) return;
  if (chosen.size > MOST_BYTES) return tell(v.says.file_large.split("{name}").join(chosen.name), "fault");
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await chosen.arrayBuffer());
    trigger("open", { text, name: chosen.name });
  } catch { tell(v.says.file_text.split("{name}").join(chosen.name), "fault"); }
});

function save(given) {
  const link = el("a");
  const bytes = Uint8Array.from(atob(given.base64), (c) => c.charCodeAt(0));
  link.href = URL.createObjectURL(new Blob([bytes], { type: given.mime }));
  link.download = given.name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function draw() {
  shelf.textContent = "";
  buttons.textContent = "";
  keepLine.textContent = "";
  shipName.textContent = v.says.ship;
  ship.id = "sv-ship";
  name.id = "sv-keep-name";
  name.setAttribute("aria-label", v.says.kept_name);
  name.placeholder = v.says.kept_name;
  buttons.append(button("upload", () => file.click()), button("fetch", () => trigger("fetch", {})), button("take", () => trigger("take", {})));
  keepLine.append(name, button("keep", () => trigger("keep", { name: name.value.trim() })));
  const fold = el("details", "sv-fold");
  fold.id = "sv-kept-box";
  fold.append(el("summary", "", v.says.kept), keepLine, keptList, el("p", "sv-quiet", v.says.kept_info));
  shelf.append(shipLabel, buttons, file, told, fold);
  listKept();
}
ship.addEventListener("change", () => { if (ship.value) trigger("open", { shipped: ship.value }); });
name.addEventListener("keydown", (event) => { if (event.key === "Enter") trigger("keep", { name: name.value.trim() }); });

function update() {
  const given = props.value;
  if (!given || !given.says) return;
  const fresh = v === null;
  v = given;
  if (fresh) draw();
  ship.textContent = "";
  if (!v.shipped.some((one) => one.value === v.current)) ship.append(new Option(v.title || v.says.ship_none, ""));
  for (const one of v.shipped) ship.append(new Option(visible(one.text, false), one.value));
  ship.value = v.current;
  if (v.n && v.n !== done) {
    done = v.n;
    tell(v.told, v.tone);
    if (v.name !== undefined) name.value = v.name;
    if (v.keep) keep(v.keep.name, v.keep.text);
    if (v.file) save(v.file);
  }
}
window.addEventListener("storage", () => { if (v && element.isConnected) listKept(); }); // another tab of this browser
watch("value", update);
update();
