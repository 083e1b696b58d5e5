// Every drafter in one sentence, those that this pair cannot run with what they need.
const list = el("dl", "sv-guide");
root.append(list);

function update() {
  list.textContent = "";
  for (const { name, lacking } of (props.value || { drafters: [] }).drafters) {
    const head = el("dt", lacking ? "is-lacking" : "", say("drafter_" + name));
    if (lacking) head.append(el("span", "sv-source", L.not_here));
    list.append(head, el("dd", "", say("about_drafter_" + name)));
    if (lacking) list.append(el("dd", "sv-needs", say("needs_" + name)));
  }
}
watch("value", update);
update();
