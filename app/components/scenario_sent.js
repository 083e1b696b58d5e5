// The form's mailbox: what was typed goes to the server from here. At once, so that figures follow a slider; and what
// takes longer to calculate when the hand has come to rest.
const REST_MS = 300;
let rest = null;
document.addEventListener("sv-scenario", (event) => {
  if (!element.isConnected) return;
  props.value = event.detail;
  trigger("edit");
  clearTimeout(rest);
  rest = setTimeout(() => trigger("settle"), REST_MS);
});
