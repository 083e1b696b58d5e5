// The token stream. Steps only ever arrive at the end of the list, so the DOM is appended to; only a Stop may rewrite
// the last step, and then all is drawn anew.
let run = null, seen = 0, greedy = true, verifier = "", current = null, longest = 0, view = "text";
let lastRecord = "", text = "", spoken = 0, spokenAt = 0; // spoken: how much of the text a listener has heard

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
bar.append(toggle, legend);

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
  const seam = el("span", "sv-seam");
  seam.setAttribute("aria-hidden", "true");
  const rejected = step.proposals.findIndex((p) => p.status === "rejected");
  const info = (token, kind, position) => ({ token, kind, position, step });
  const replacement = step.replacement;

  if (seen > 0) panes.text.append(seam);
  for (const e of step.emitted) {
    const token = e.kind === "accepted" ? step.proposals[e.proposal] : replacement || e;
    if (e.kind !== "accepted" && rejected >= 0) appendRejected(step, rejected, info);
    // A token that adds no text of its own (a part of a character, a special token) still has its place.
    const silent = e.shown === "";
    const node = chip("tk-" + e.kind + (silent ? " tk-silent" : ""), silent ? tokenLabel(token) : "",
      info(token, e.kind, e.proposal));
    if (!silent) fill(node, e.shown);
    panes.text.append(node);
    text += e.shown;
  }
  if (replacement === null && rejected >= 0) appendRejected(step, rejected, info);
  appendRow(step, info, replacement);
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
  panes.text.append(chip("tk-rejected", tokenLabel(p), info(p, "rejected", first)));
}

// The engine's notes are English; those we know are said in the reader's language.
function noteWords(note) {
  return note && (L["note_" + note.replace(/\W+/g, "_")] || visible(note, false));
}

function appendRow(step, info, replacement) {
  const row = el("div", "sv-row");
  const head = el("span", "sv-row-index", String(step.index + 1));
  const chips = el("span", "sv-row-chips");
  const firstRejected = step.proposals.findIndex((p) => p.status === "rejected");
  step.proposals.forEach((p, i) => {
    // Behind the first rejection nothing was tested (block verification apart): shown, fainter.
    const late = firstRejected >= 0 && i > firstRejected && p.u === null ? " tk-untested" : "";
    chips.append(chip("tk-" + p.status + late, tokenLabel(p), info(p, p.status, i)));
  });
  if (replacement) {
    if (step.proposals.length) {
      const arrow = el("span", "sv-arrow", "→");
      arrow.setAttribute("aria-hidden", "true");
      chips.append(arrow);
    }
    chips.append(chip("tk-" + replacement.kind, tokenLabel(replacement), info(replacement, replacement.kind)));
  }
  const note = step.prefill ? say("prefill_note", { n: num(step.prefill + 1, 0) }) : noteWords(step.note);
  if (note) chips.append(el("span", "sv-note", note));
  const accepted = step.proposals.filter((p) => p.status === "accepted").length;
  const score = el("span", "sv-row-score", step.proposals.length ? accepted + "/" + step.proposals.length : "–");
  score.setAttribute("aria-label", say("row_score", { a: accepted, k: step.proposals.length }));
  const time = el("span", "sv-row-time");
  const total = step.ms[0] + step.ms[1] + step.ms[2];
  time.setAttribute("aria-label", say("row_time", { draft: num(step.ms[0], 1), verify: num(step.ms[1], 1) }));
  time.title = time.getAttribute("aria-label");
  const track = el("span", "sv-row-track");
  ["draft", "verify", "other"].forEach((name, i) => {
    const part = el("span", "sv-ms sv-ms-" + name);
    part.style.setProperty("--ms", String(step.ms[i]));
    track.append(part);
  });
  time.append(track, el("span", "sv-row-ms", num(total, 0) + " ms"));
  // Bars share one scale; a longer step rescales all of them by one property. Reading the prompt is not on it.
  if (!step.prefill && total > longest) {
    longest = total;
    panes.steps.style.setProperty("--ms-max", String(longest));
  }
  row.append(head, chips, score, time);
  panes.steps.append(row);
}

// ---- the card (what it says is in token_card.js) -----------------------------------------------------------
function showCard(node) {
  fillCard(card, node.info, greedy, verifier);
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
const all = () => Array.from(panes[view].querySelectorAll(".tk"));

// One token is in the tab order (roving tabindex): Tab enters the stream, the arrows walk it.
function resetRoving() {
  if (panes[view].querySelector('.tk[tabindex="0"]')) return;
  const first = panes[view].querySelector(".tk");
  if (first) first.tabIndex = 0;
}
function focusOn(node) {
  for (const other of panes[view].querySelectorAll('.tk[tabindex="0"]')) other.tabIndex = -1;
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
stage.addEventListener("keydown", (event) => {
  if (event.key === "Escape") return hideCard();
  if (event.key === "Enter" || event.key === " ") {
    if (event.target.info) { event.preventDefault(); showCard(event.target); }
    return;
  }
  const list = all(), at = list.indexOf(event.target);
  if (at < 0) return;
  const step = event.target.info.step;
  const moves = {
    ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: list.length - 1,
    ArrowDown: list.findIndex((n, i) => i > at && n.info.step !== step),
    ArrowUp: list.findIndex((n) => n.info.step.index === step.index - 1),
  };
  const to = moves[event.key];
  if (to === undefined) return;
  event.preventDefault();
  if (to >= 0 && to < list.length) focusOn(list[to]);
});

// ---- updates -----------------------------------------------------------------------------------------------
function clear() {
  seen = 0; longest = 0; text = ""; lastRecord = "";
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
  if (v.run !== run) reset(v.run);
  if (v.steps.length < seen || (seen && v.steps[seen - 1] !== lastRecord)) clear();
  const pane = panes[view];
  const atEnd = pane.scrollHeight - pane.scrollTop - pane.clientHeight < 40;
  for (; seen < v.steps.length; seen++) appendStep(JSON.parse(v.steps[seen]));
  lastRecord = seen ? v.steps[seen - 1] : "";
  root.dataset.state = v.state;
  greedy = v.greedy !== false;
  verifier = v.verifier || "";
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
