// One line on what the run is doing. An error is announced at once, progress is not.
const line = el("div", "sv-status");
const dot = el("span", "sv-dot");
const words = el("span", "sv-status-words");
dot.setAttribute("aria-hidden", "true");
line.append(dot, words);
root.append(line);
const block = element.closest(".block");
let place = null;

// Gradio knows the place in the queue and writes it into its own overlay, in English and over this line. We read
// it there and say it in words; when nothing is found there, the overlay is left as it is.
function queuePlace() {
  const meta = block && block.querySelector(".meta-text, .meta-text-center");
  const found = meta && /queue\D*(\d+)\s*\/\s*(\d+)/i.exec(meta.textContent);
  return found ? { place: found[1], of: found[2] } : null;
}

// On a narrow screen what the run shows lies below all the settings: a new run is brought into sight.
function showRun() {
  const stream = root.closest("#sv-stream");
  if (!stream || window.innerWidth > 720) return;
  const calm = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  stream.scrollIntoView({ behavior: calm ? "auto" : "smooth", block: "start" });
}

function update() {
  const v = props.value || { state: "idle" };
  if (v.state === "starting" && line.dataset.state !== "starting") showRun();
  const state = place ? "queued" : v.state;
  line.dataset.state = state;
  line.setAttribute("role", state === "failed" ? "alert" : "status");
  line.setAttribute("aria-live", state === "failed" ? "assertive" : state === "queued" ? "polite" : "off");
  const values = { tokens: v.tokens, steps: v.steps, reason: v.reason ? say("reason_" + v.reason) : "", ...place };
  words.textContent = v.message && !place ? visible(v.message, false) : say("status_" + state, values);
}

if (block) {
  new MutationObserver(() => {
    const now = queuePlace();
    if (JSON.stringify(now) === JSON.stringify(place)) return;
    place = now;
    block.classList.toggle("sv-queued", place !== null);
    update();
  }).observe(block, { subtree: true, childList: true, characterData: true });
}
watch("value", update);
update();
