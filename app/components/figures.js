// The live figures. Built once; every update only rewrites texts and widths.
const box = el("div", "sv-figures");
root.append(box);
const parts = {};

function section(name) {
  const s = el("section", "sv-figure sv-figure-" + name);
  const head = el("h4", "", say("figure_" + name));
  s.append(head);
  box.append(s);
  return s;
}
function slot(parent, name, className) {
  parts[name] = el("div", className);
  parent.append(parts[name]);
  return parts[name];
}

const lossy = slot(box, "lossy", "sv-lossy-note");
lossy.append(lossyBadge(), el("p", "sv-small", L.lossy_why));
const race = section("race");
slot(race, "verdict", "sv-verdict");
for (const arm of ["speculative", "plain"]) {
  const line = el("div", "sv-lane sv-lane-" + arm);
  const track = el("div", "sv-lane-track");
  const fill = parts[arm + "_bar"] = el("div", "sv-lane-fill");
  track.append(fill);
  line.append(el("span", "sv-lane-name", say("arm_" + arm)), parts[arm + "_tps"] = el("span", "sv-lane-value"), track);
  race.append(line);
}
slot(race, "race_note", "sv-small");

const tau = section("tau");
slot(tau, "tau", "sv-big");
slot(tau, "tau_note", "sv-small");
const positions = section("positions");
const bars = slot(positions, "bars", "sv-bars");
bars.setAttribute("role", "img");
slot(positions, "bars_note", "sv-small");
const split = section("split");
const track = slot(split, "split", "sv-split");
track.setAttribute("role", "img");
slot(split, "split_note", "sv-small");
const forwards = section("forwards");
slot(forwards, "forwards", "sv-big");
slot(forwards, "forwards_note", "sv-small");
slot(box, "same", "sv-same");
slot(box, "notices", "sv-notices");
slot(box, "law", "sv-provenance");
slot(box, "where", "sv-provenance");

function put(name, text) { if (parts[name].textContent !== text) parts[name].textContent = text; }

function verdict(s) {
  if (s === null) return ["–", "none"];
  if (s >= 1.02) return [say("faster", { x: num(s, 2) }), "faster"];
  if (s <= 0.98) return [say("slower", { x: num(s, 2) }), "slower"];
  return [say("same_speed", { x: num(s, 2) }), "none"];
}

function drawBars(v) {
  const n = Math.max(v.per_position.length, v.drafted_steps && !v.controlled ? v.k : 0);
  while (bars.children.length > n) bars.lastChild.remove();
  while (bars.children.length < n) {
    const column = el("div", "sv-column");
    const stem = el("div", "sv-stem");
    stem.append(el("div", "sv-stem-fill"));
    column.append(el("span", "sv-column-value"), stem, el("span", "sv-column-name", String(bars.children.length + 1)));
    bars.append(column);
  }
  Array.from(bars.children).forEach((column, i) => {
    // A position that no draft ever reached has no rate; its column stays empty.
    const rate = i < v.per_position.length ? v.per_position[i] : null;
    column.children[0].textContent = n <= 8 ? percent(rate) : "";
    column.title = percent(rate);
    column.querySelector(".sv-stem-fill").style.height = (rate || 0) * 100 + "%";
  });
  bars.setAttribute("aria-label", v.per_position.map((r, i) => (i + 1) + ": " + percent(r)).join(", ") || L.no_drafts);
  put("bars_note", !v.per_position.length ? L.no_drafts : v.trees ? L.positions_note_tree : L.positions_note);
}

function drawSplit(v) {
  const total = v.split ? v.split[0] + v.split[1] + v.split[2] : 0;
  if (track.children.length === 0) {
    for (const name of ["draft", "verify", "other"]) track.append(el("span", "sv-ms-" + name));
  }
  Array.from(track.children).forEach((part, i) => { part.style.width = (total ? v.split[i] / total * 100 : 0) + "%"; });
  const text = total ? ["draft", "verify", "other"].map((n, i) => say("split_" + n) + " " + percent(v.split[i] / total)).join(" · ") : L.no_steps;
  track.setAttribute("aria-label", text);
  put("split_note", total ? text + " · " + say("per_step", { ms: num(total * 1000 / Math.max(1, v.steps - 1), 0) }) : text);
}

// What the arms have in common is a claim, so it is made only when it holds for every token.
function drawSame(same) {
  const key = !same ? "" : same.at === null ? "same_all" : same.near_tie ? "same_tie" : "same_fault";
  parts.same.hidden = !same;
  parts.same.dataset.tone = key;
  put("same", same ? say(key, { n: num(same.tokens, 0), at: same.at, margin: same.margin === null ? "–" : num(same.margin, 4) }) : "");
}

function raceNote(v, f) {
  if (!v) return L.race_idle;
  if (!f.drafts) return L.race_none;
  if (f.speedup === null) return L.race_waiting;
  return say("race_note", { n: num(f.compared, 0), ttft: num(f.speculative.ttft_s * 1000, 0) });
}

function lawNote(f) {
  if (f.temperature === null) return "";
  const text = f.greedy ? L.law_greedy : say("law_sampled", { t: num(f.temperature, 2), seed: f.seed });
  return f.draft_model ? text + " · " + L.law_draft : text;
}

// By its key where the engine gave one, with numbers as the reader writes them; a list holds pairs of a count and a number.
function told(notice) {
  if (typeof notice === "string") return notice;
  const shown = (v) => Array.isArray(v) ? v.map(([n, x]) => num(n, 0) + ": " + num(x, 1)).join(" · ") : typeof v === "number" ? num(v, 2) : v;
  const values = Object.fromEntries(Object.entries(notice.values).map(([name, v]) => [name, shown(v)]));
  return L["notice_" + notice.key] === undefined ? notice.text : say("notice_" + notice.key, values);
}

const NOTHING = { k: 0, drafts: true, lossy: false, trees: false, compared: 0, speedup: null, speculative: null, plain: null, tau: null,
  per_position: [], drafted_steps: 0, split: null, steps: 0, tokens: 0, forwards: 0, same: null, temperature: null,
  where: "", notices: [] };

function update() {
  const v = props.value;
  root.dataset.state = v ? v.state : "idle";
  const f = v || NOTHING;
  const [words, tone] = verdict(f.speedup);
  put("verdict", words);
  parts.verdict.dataset.tone = tone;
  lossy.hidden = !f.lossy;
  const fastest = Math.max(...["speculative", "plain"].map((a) => (f[a] && f[a].tps) || 0));
  for (const arm of ["speculative", "plain"]) {
    const a = f[arm];
    put(arm + "_tps", a && a.tps ? num(a.tps, 1) + " " + L.tps : "–");
    parts[arm + "_bar"].style.width = (a && a.tps ? a.tps / fastest * 100 : 0) + "%";
  }
  put("race_note", raceNote(v, f));
  put("tau", f.tau === null ? "–" : num(f.tau, 2));
  put("tau_note", f.tau === null ? (v ? L.no_drafts : L.tau_idle) : say(f.trees ? "tau_note_tree" : "tau_note", { max: f.k + 1, rate: percent(f.accept_rate) }));
  drawBars(f);
  drawSplit(f);
  put("forwards", f.steps ? num(f.tokens - f.forwards, 0) : "–");
  put("forwards_note", f.steps ? say("forwards_note", { tokens: num(f.tokens, 0), forwards: num(f.forwards, 0) }) : L.forwards_idle);
  drawSame(f.same);
  parts.notices.textContent = "";
  for (const notice of f.notices) parts.notices.append(el("p", "", visible(told(notice), false)));
  put("law", lawNote(f));
  put("where", f.where ? say("measured_where", { where: visible(f.where, false) }) : "");
}
watch("value", update);
update();
