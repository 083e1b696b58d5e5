// The token stream. Steps only ever arrive at the end of the list, so the DOM is appended to; only a Stop may rewrite
// the last step, and then all is drawn anew.
let run = null, seen = 0, greedy = true, verifier = "", current = null, longest = 0, view = "text";
let lastRecord = "", before = null; // before: the context's last token
let text = "", spoken = 0, spokenAt = 0; // spoken: how much of the text a listener has heard

// ---- the fixed parts -------------------------------------------------------------------------------------
const bar = el("div", "sv-bar");
const toggle = el("div", "sv-toggle");
toggle.setAttribute("role", "group");
toggle.setAttribute("aria-label", L.view);
const buttons = {};
for (const name of ["text", "steps"]) {
  const b = buttons[name] = el("button", "sv-toggle-button", say("view_" + name));
  b.type = "button";
  b.addEventListener("click", () => show(name));
  toggle.append(b);
}
const legend = el("ul", "sv-legend");
legend.setAttribute("aria-label", L.legend);
for (const kind of ["accepted", "recovered", "bonus", "plain", "rejected", "ignored"]) {
  const item = el("li");
  item.title = say("legend_" + kind);
  item.append(el("span", "tk tk-" + kind, L.legend_sample), el("span", "", say("kind_" + kind)));
  legend.append(item);
}
const badge = lossyBadge();
badge.hidden = true;
bar.append(toggle, badge, legend);

const stage = el("div", "sv-stage");
const empty = el("div", "sv-empty");
const emptyHead = el("p", "sv-empty-head", L.empty_head);
empty.append(emptyHead, el("p", "", L.empty_body));
const panes = { text: el("div", "sv-pane sv-text"), steps: el("div", "sv-pane sv-steps") };
for (const name of Object.keys(panes)) {
  panes[name].setAttribute("role", "group");
  panes[name].setAttribute("aria-label", say("pane_" + name));
}
const card = el("div", "sv-card");
card.id = element.id + "-card";
card.setAttribute("role", "tooltip");
card.hidden = true;
const log = el("div", "sv-only-read");
log.setAttribute("role", "log");
log.setAttribute("aria-live", "polite");
stage.append(empty, panes.text, panes.steps);
root.append(bar, stage, card, log);

function show(name) {
  view = name;
  hideCard();
  for (const other of Object.keys(panes)) {
    panes[other].hidden = other !== name;
    buttons[other].setAttribute("aria-pressed", String(other === name));
  }
  resetRoving();
}

// ---- one token ---------------------------------------------------------------------------------------------
function chip(className, text, info) {
  const node = el("span", "tk " + className, text);
  node.info = info;
  node.tabIndex = -1;
  node.setAttribute("role", "button");
  node.setAttribute("aria-label", tokenLabel(info.token) + ", " + say("kind_" + info.kind) +
    (info.token.p === undefined ? "" : ", p " + prob(info.token.p)));
  return node;
}

function appendStep(step) {
  completeStep(step);
  const seam = el("span", "sv-seam");
  seam.setAttribute("aria-hidden", "true");
  // What fell where the accepted path ends: of a tree's siblings there the first, the likeliest.
  const rejected = step.tree ? (step.children.get(step.end) || []).find((i) => step.proposals[i].status === "rejected") ?? -1
    : step.proposals.findIndex((p) => p.status === "rejected");
  const info = (token, kind, position) => ({ token, kind, position, step });
  const replacement = step.replacement;

  if (seen > 0) panes.text.append(seam);
  for (const e of step.emitted) {
    const token = e.kind === "accepted" ? step.proposals[e.proposal] : replacement || e;
    if (e.kind !== "accepted" && rejected >= 0) appendRejected(step, rejected, info);
    // A token that adds no text of its own (a part of a character, a special token) still has its place.
    const silent = e.shown === "";
    const node = chip("tk-" + e.kind + (silent ? " tk-silent" : ""), silent ? tokenLabel(token) : "",
      info(token, e.kind, token.depth));
    if (!silent) fill(node, e.shown);
    panes.text.append(node);
    text += e.shown;
  }
  if (replacement === null && rejected >= 0) appendRejected(step, rejected, info);
  appendRow(step, info, replacement);
  before = replacement || (step.end >= 0 ? step.proposals[step.end] : before);
}

// Newlines break the line as they should, with a faint mark where they are.
function fill(node, text) {
  const parts = visible(text, false).split("\n");
  parts.forEach((part, i) => {
    if (i > 0) {
      const mark = el("span", "sv-newline", "⏎");
      mark.setAttribute("aria-hidden", "true");
      node.append(mark, "\n");
    }
    if (part) node.append(part);
  });
}

function appendRejected(step, first, info) {
  const p = step.proposals[first];
  panes.text.append(chip("tk-rejected", tokenLabel(p), info(p, "rejected", p.depth)));
}

// From a token of the text to its place among the branches.
function showBranches(info) {
  const drawn = info.step.open(true);
  show("steps");
  const nodes = Array.from(drawn.querySelectorAll(".tk"));
  focusOn(nodes.find((n) => n.info.token === info.token) || nodes[0]);
}

// ---- the card (what it says is in token_card.js) -----------------------------------------------------------
function showCard(node) {
  fillCard(card, node.info, greedy, verifier);
  if (node.info.step.tree && view === "text") card.append(el("p", "sv-card-where", L.hint_tree));
  card.hidden = false;
  if (current) current.removeAttribute("aria-describedby");
  node.setAttribute("aria-describedby", card.id);
  current = node;
  place(node);
}

function place(node) {
  const box = root.getBoundingClientRect();
  const at = node.getClientRects()[0] || node.getBoundingClientRect();
  const left = Math.max(0, Math.min(at.left - box.left, box.width - card.offsetWidth));
  // Above the token when there is more room there, so that the text being read stays in sight.
  const below = at.bottom - box.top + 6;
  const above = at.top - box.top - card.offsetHeight - 6;
  const fits = at.bottom + card.offsetHeight + 12 < window.innerHeight;
  card.style.left = left + "px";
  card.style.top = (fits || at.top < card.offsetHeight ? below : above) + "px";
}

function hideCard() {
  card.hidden = true;
  if (current) current.removeAttribute("aria-describedby");
  current = null;
}

// ---- pointer and keyboard ----------------------------------------------------------------------------------
const all = () => Array.from(panes[view].querySelectorAll(".tk, .sv-branch-button")).filter((n) => n.offsetParent);
const stepOf = (node) => (node.info ? node.info.step : node.step);

// One token is in the tab order (roving tabindex): Tab enters the stream, the arrows walk it.
function resetRoving() {
  if (panes[view].querySelector('[tabindex="0"]')) return;
  const first = panes[view].querySelector(".tk");
  if (first) first.tabIndex = 0;
}
function focusOn(node) {
  for (const other of panes[view].querySelectorAll('[tabindex="0"]')) other.tabIndex = -1;
  node.tabIndex = 0;
  node.focus();
}
stage.addEventListener("mouseover", (event) => {
  const node = event.target.closest(".tk");
  if (node && node.info) showCard(node);
});
stage.addEventListener("mouseleave", () => {
  const focused = document.activeElement;
  if (focused && focused.info && stage.contains(focused)) showCard(focused);
  else hideCard();
});
stage.addEventListener("focusin", (event) => { if (event.target.info) showCard(event.target); });
stage.addEventListener("focusout", hideCard);
// Focus may scroll its token into view: the card goes along, and only a card that was pointed at goes away.
stage.addEventListener("scroll", () => {
  if (current && current === document.activeElement) place(current);
  else hideCard();
}, true);
stage.addEventListener("click", (event) => {
  const node = event.target.closest(".tk");
  if (node && node.info) focusOn(node);
});
stage.addEventListener("dblclick", (event) => {
  const node = event.target.closest(".tk");
  if (node && node.info && node.info.step.tree && view === "text") showBranches(node.info);
});
stage.addEventListener("keydown", (event) => {
  if (event.key === "Escape") return hideCard();
  if (event.key === "Enter" || event.key === " ") {
    const info = event.target.info;
    if (!info) return;
    event.preventDefault();
    if (info.step.tree && view === "text") showBranches(info);
    else showCard(event.target);
    return;
  }
  const near = event.target.place && walkTree(event.target, event.key);
  if (near) { event.preventDefault(); return focusOn(near); }
  const list = all(), at = list.indexOf(event.target);
  if (at < 0) return;
  const step = stepOf(event.target);
  const moves = {
    ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: list.length - 1,
    ArrowDown: list.findIndex((n, i) => i > at && stepOf(n) !== step),
    ArrowUp: list.findIndex((n) => stepOf(n).index === (event.target.place ? step.index : step.index - 1)),
  };
  const to = moves[event.key];
  if (to === undefined) return;
  event.preventDefault();
  if (to >= 0 && to < list.length) focusOn(list[to]);
});

// ---- updates -----------------------------------------------------------------------------------------------
function clear() {
  seen = 0; longest = 0; text = ""; lastRecord = ""; before = null;
  hideCard();
  panes.text.textContent = panes.steps.textContent = "";
}
function reset(id) {
  run = id; spoken = 0;
  clear();
  log.textContent = "";
}

// A reader of the screen hears whole stretches, not every token: at most one message in three seconds.
function speak(done) {
  const now = Date.now();
  if (text.length > spoken && (done || now - spokenAt > 3000)) {
    log.append(el("p", "", text.slice(spoken)));
    spoken = text.length;
    spokenAt = now;
  }
}

function update() {
  const v = props.value || { run: null, state: "idle", steps: [] };
  greedy = v.greedy !== false;
  verifier = v.verifier || "";
  if (v.run !== run) reset(v.run);
  if (v.steps.length < seen || (seen && v.steps[seen - 1] !== lastRecord)) clear();
  const pane = panes[view];
  const atEnd = pane.scrollHeight - pane.scrollTop - pane.clientHeight < 40;
  for (; seen < v.steps.length; seen++) appendStep(JSON.parse(v.steps[seen]));
  lastRecord = seen ? v.steps[seen - 1] : "";
  root.dataset.state = v.state;
  badge.hidden = !v.lossy;
  empty.hidden = seen > 0;
  emptyHead.textContent = v.state === "starting" ? L.status_starting : L.empty_head;
  stage.setAttribute("aria-busy", String(v.state === "running"));
  if (atEnd && v.state === "running") pane.scrollTop = pane.scrollHeight;
  resetRoving();
  speak(v.state !== "running");
}
show("text");
watch("value", update);
update();
