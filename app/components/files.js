// Files that were made for this reader: each is saved from what the page holds, so none has an address on the server.
const box = el("div", "sv-files");
root.append(box);

function update() {
  const v = props.value;
  box.textContent = "";
  if (!v || !v.files) return;
  if (v.told) box.append(el("p", "sv-quiet", v.told));
  for (const one of v.files) {
    const b = el("button", "sv-button", "↓ " + visible(one.name, false));
    b.type = "button";
    b.addEventListener("click", () => {
      const bytes = Uint8Array.from(atob(one.base64), (c) => c.charCodeAt(0));
      const link = el("a");
      link.href = URL.createObjectURL(new Blob([bytes], { type: one.mime }));
      link.download = one.name;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
    box.append(b);
  }
}
// What was made is of the numbers of its time: once they change it is not offered on, so that no old file is signed.
function outdate() {
  if (element.isConnected && box.querySelector("button")) box.replaceChildren(el("p", "sv-quiet", props.value.stale));
}
document.addEventListener("sv-scenario", outdate);
document.addEventListener("sv-outdated", outdate);
watch("value", update);
update();
