// What the server says to the form that is drawn; a component of its own, for the same reason as the mailbox.
function answer() {
  if (props.value && props.value.id) document.dispatchEvent(new CustomEvent("sv-scenario-answer", { detail: props.value }));
}
watch("value", answer);
