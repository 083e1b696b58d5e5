// What the chosen things do, a sentence each; a lossy choice says so before anything else.
function update() {
  const v = props.value || { keys: [] };
  root.textContent = "";
  if (v.lossy) root.append(lossyBadge());
  for (const key of v.keys) root.append(el("p", "sv-about", say(key)));
}
watch("value", update);
update();
