// What the server says to the form that is drawn; a component of its own, for the same reason as the mailbox.
function answer() {
  if (!props.value || !props.value.id) return;
  const name = props.value.beside ? "sv-scenario-beside" : "sv-scenario-answer";
  document.dispatchEvent(new CustomEvent(name, { detail: props.value }));
}
watch("value", answer);
