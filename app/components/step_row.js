// One row of the steps view: what was proposed, what the target put behind it, its time, and a tree's branches.
// The engine's notes are English; those we know are said in the reader's language.
function noteWords(note) {
  const known = (part) => L["note_" + part.replace(/\W+/g, "_")] || visible(part, false);
  // A draft of several methods has a note of each: "suffix: no match; recycling: this token is new".
  return note && note.split("; ").map((part) => {
    const at = part.indexOf(": "), name = at > 0 && L["drafter_" + part.slice(0, at)];
    return name ? name + ": " + known(part.slice(at + 2)) : known(part);
  }).join("; ");
}

function appendRow(step, info, replacement) {
  const row = el("div", "sv-row");
  const head = el("span", "sv-row-index", String(step.index + 1));
  const chips = el("span", "sv-row-chips");
  // Of a tree the row shows what stands; its branches are one click away.
  for (const i of step.tree ? step.path : step.proposals.keys()) {
    const p = step.proposals[i];
    // Behind the first rejection nothing was tested (block verification apart): shown, fainter.
    const late = p.fate === "unreached" && p.u === null ? " tk-untested" : "";
    chips.append(chip("tk-" + p.status + late, tokenLabel(p), info(p, p.status, p.depth)));
  }
  if (replacement) {
    if (step.tree ? step.path.length : step.proposals.length) {
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
  if (step.tree) addBranches(row, chips, step, info);
  panes.steps.append(row);
}

// The branches of a step (tree_view.js) are drawn when they are first asked for.
function addBranches(row, chips, step, info) {
  const button = el("button", "sv-branch-button", say("row_tree", { n: num(step.proposals.length, 0) }));
  const root = before;
  let drawn = null;
  button.type = "button";
  button.tabIndex = -1; // a stop of the arrows, like the tokens
  button.step = step;
  button.setAttribute("aria-expanded", "false");
  button.setAttribute("aria-label", say("row_tree_label", { step: step.index + 1, n: num(step.proposals.length, 0) }));
  step.open = (wanted) => {
    if (wanted && !drawn) row.append(drawn = drawTree(step, root, info));
    if (drawn) drawn.hidden = !wanted;
    button.setAttribute("aria-expanded", String(wanted));
    return drawn;
  };
  button.addEventListener("click", () => {
    step.open(button.getAttribute("aria-expanded") === "false");
    focusOn(button);
  });
  chips.append(button);
}
