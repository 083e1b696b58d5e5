// Shared by every view of this app; put before each view's own script. Nothing here (or there) ever parses a
// value as markup: text goes in by textContent, attributes by setAttribute, numbers by Intl.
const language = (navigator.language || "en").toLowerCase().startsWith("tr") ? "tr" : "en";
// Views whose texts come with their values have no labels; and Gradio drops a view's extra props when its value is set
// before its tab was ever opened.
const L = (props.labels || {})[language] || {};
const root = element.querySelector(".sv-root");

function el(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined && text !== null) node.textContent = text;
  return node;
}

function say(key, values) {
  let text = L[key] === undefined ? key : L[key];
  // split/join, not replace: a value holding a dollar sign is not a replacement pattern.
  for (const name of Object.keys(values || {})) text = text.split("{" + name + "}").join(values[name]);
  return text;
}

const formats = {};
function num(x, digits) {
  if (x === null || x === undefined || !Number.isFinite(x)) return "–";
  formats[digits] ||= new Intl.NumberFormat(language, { minimumFractionDigits: digits, maximumFractionDigits: digits });
  return formats[digits].format(x);
}
function prob(x) {
  if (x === 0 || x === 1) return num(x, 0); // exact: not a small or large one that was rounded
  return x !== null && x > 0 && x < 0.001 ? "<" + num(0.001, 3) : num(x, 3);
}
function percent(x) {
  if (x === null || x === undefined || !Number.isFinite(x)) return "–";
  return language === "tr" ? "%" + num(x * 100, 0) : num(x * 100, 0) + "%";
}

// Characters that show nothing, or that would reorder the line around them, get a visible stand-in.
function isUnseen(c) {
  return c < 32 || (c >= 127 && c < 160) || c === 0xad || (c >= 0x200b && c <= 0x200f) ||
    (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c === 0xfeff || (c >= 0xd800 && c <= 0xdfff);
}
function visible(text, spaces) {
  let out = "";
  for (const ch of text) {
    const c = ch.codePointAt(0);
    if (ch === "\n") out += spaces ? "⏎" : "\n";
    else if (ch === "\t") out += spaces ? "⇥" : "\t";
    else if (ch === " ") out += spaces ? "␣" : " ";
    else if (c < 32) out += String.fromCodePoint(0x2400 + c);
    else if (isUnseen(c)) out += "⟨U+" + c.toString(16).toUpperCase().padStart(4, "0") + "⟩";
    else out += ch;
  }
  return out;
}
// One token by itself, every character visible; a part of a character as its bytes.
function tokenLabel(t) {
  if (t.bytes) return "⟨" + t.bytes + "⟩";
  return t.text === "" ? "∅" : visible(t.text, true);
}
// Told by its words and its frame, not by its colour alone.
function lossyBadge() {
  const badge = el("span", "sv-lossy", L.lossy);
  badge.title = L.lossy_why;
  return badge;
}
