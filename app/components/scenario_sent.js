// The form's mailbox: what was typed goes to the server from here. At once, so that figures follow a slider; their charts
// when the figures have come; and what takes longer to calculate when the hand has come to rest, never before the last
// message was answered: it would be of the one before, with nothing to follow it.
const REST_MS = 300;
// While a slider is dragged on, an answer is not the last one: charts then come so often, not with each of them.
const CHARTS_MS = 300;
let rest = null, moved = 0, drawn = 0;
document.addEventListener("sv-scenario", (event) => {
  if (!element.isConnected) return;
  props.value = event.detail;
  moved = performance.now();
  clearTimeout(rest);
  trigger("edit");
});
document.addEventListener("sv-scenario-answer", (event) => {
  const sent = props.value, answer = event.detail, now = performance.now();
  if (!element.isConnected || !sent || answer.id !== sent.id) return;
  const last = answer.seq >= sent.seq;
  if (!last && now - drawn < CHARTS_MS) return;
  drawn = now;
  trigger("draw");
  if (!last) return;
  clearTimeout(rest);
  rest = setTimeout(() => trigger("settle"), Math.max(0, REST_MS - (now - moved)));
});
// Figures of another event (a tab, a rate) have come that do not know of the last message, and may have come after its
// answer: the same message once more has them told anew.
document.addEventListener("sv-scenario-beside", (event) => {
  const sent = props.value, known = event.detail;
  if (element.isConnected && sent && known.id === sent.id && known.seq < sent.seq) trigger("edit");
});
