function update() { root.textContent = visible(String(props.value || ""), false); }
watch("value", update);
update();
