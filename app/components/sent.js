// The rendered prompt, as text. Its control tokens are words of the text already; odd characters are made visible.
const count = el("p", "sv-sent-count"), text = el("pre", "sv-sent-text");
root.append(count, text);

function update() {
  const v = props.value;
  count.textContent = v ? say("sent_count", { n: num(v.tokens, 0) }) : L.sent_empty;
  text.textContent = v ? visible(v.text, false) : "";
  text.hidden = !v;
}
watch("value", update);
update();
