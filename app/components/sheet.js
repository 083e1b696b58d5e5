// Cards and tables of figures, made by the server as texts. Every figure that has a derivation is a button for it.
const box = el("div", "sv-sheet");
root.append(box);

function figure(cell) {
  if (cell === null || cell === undefined) return el("span", "sv-none", "–");
  if (typeof cell !== "object") return el("span", "", visible(String(cell), false));
  const node = el("span", "sv-cell");
  const text = visible(String(cell.t), false);
  if (cell.why) {
    const b = el("button", "sv-num", text);
    b.type = "button";
    b.setAttribute("aria-haspopup", "dialog");
    b.dataset.name = cell.why;
    if (cell.name) b.setAttribute("aria-label", text + ", " + cell.name);
    b.addEventListener("click", () => trigger("why", { id: cell.why }));
    node.append(b);
  } else node.append(el("span", "", text));
  if (cell.tone) node.dataset.tone = cell.tone;
  if (cell.badge) {
    const badge = el("span", "sv-badge", cell.badge.text);
    badge.dataset.label = cell.badge.kind;
    node.append(badge);
  }
  for (const sub of [].concat(cell.sub || [])) node.append(el("span", "sv-sub", visible(sub, false)));
  return node;
}

function tableOf(block) {
  const scroll = el("div", "sv-scroll");
  scroll.setAttribute("role", "region");
  scroll.setAttribute("aria-label", block.title || block.name || "");
  const table = el("table", "sv-table" + (block.cards ? " sv-as-cards" : "") + (block.dense ? " sv-dense" : "") + (block.tight ? " sv-tight" : ""));
  const head = el("thead"), top = el("tr");
  for (const column of block.columns) {
    const th = el("th", column.text_left ? "" : "sv-right", visible(column.text, false));
    th.scope = "col";
    if (column.unit) th.append(el("span", "sv-unit", column.unit));
    top.append(th);
  }
  head.append(top);
  const body = el("tbody");
  for (const row of block.rows) {
    const tr = el("tr", row.tone ? "sv-row-" + row.tone : "");
    row.cells.forEach((cell, i) => {
      const node = el(i === 0 ? "th" : "td", i === 0 || block.columns[i].text_left ? "" : "sv-right");
      if (i === 0) node.scope = "row";
      else node.dataset.head = block.columns[i].text + (block.columns[i].unit ? " " + block.columns[i].unit : "");
      if (cell && cell.heat !== undefined) node.style.setProperty("--heat", cell.heat);
      const shown = figure(cell), number = shown.querySelector(".sv-num");
      // A listener hears which figure it is: its row and its column.
      if (number && i > 0 && !cell.name) number.setAttribute("aria-label", [number.textContent, tr.firstChild.textContent, node.dataset.head].join(", "));
      node.append(shown);
      tr.append(node);
    });
    body.append(tr);
  }
  table.append(head, body);
  scroll.append(table);
  return scroll;
}

function pickOf(block) {
  const label = el("label", "sv-pick");
  label.append(el("span", "", block.label));
  const select = el("select", "sv-box");
  for (const one of block.options) select.append(new Option(visible(one.text, false), one.value));
  select.value = block.value;
  select.dataset.name = block.name;
  select.addEventListener("change", () => {
    document.dispatchEvent(new CustomEvent("sv-outdated"));
    trigger("pick", { name: block.name, value: select.value });
  });
  label.append(select);
  return label;
}

function cardOf(card) {
  const node = el("article", "sv-option-card");
  const head = el("header");
  head.append(el("h4", "", visible(card.title, false)), el("span", "sv-kind", card.kind));
  node.append(head);
  if (card.sub) node.append(el("p", "sv-quiet", visible(card.sub, false)));
  for (const block of card.blocks) node.append(blockOf(block));
  return node;
}

function blockOf(block) {
  if (block.type === "title") return el("h3", "sv-title", visible(block.text, false));
  if (block.type === "text") {
    const p = el("p", "sv-told", visible(block.text, false));
    if (block.tone) p.dataset.tone = block.tone;
    if (block.tone === "fault") p.setAttribute("role", "alert");
    return p;
  }
  if (block.type === "figures") {
    const list = el("dl", "sv-keyed");
    for (const [name, cell] of block.items) {
      const pair = el("div");
      const dd = el("dd");
      dd.append(figure(cell));
      pair.append(el("dt", "", name), dd);
      list.append(pair);
    }
    return list;
  }
  if (block.type === "cards") {
    const grid = el("div", "sv-cards");
    grid.append(...block.cards.map(cardOf));
    return grid;
  }
  if (block.type === "picks") {
    const bar = el("div", "sv-picks");
    bar.append(...block.picks.map(pickOf));
    return bar;
  }
  if (block.type === "list") {
    const list = el("ul", "sv-list");
    for (const item of block.items) {
      const li = el("li");
      li.append(figure(item));
      list.append(li);
    }
    return list;
  }
  if (block.type === "fold") {
    const fold = el("details", "sv-fold");
    fold.open = open.has(block.name);
    fold.addEventListener("toggle", () => (fold.open ? open.add(block.name) : open.delete(block.name)));
    fold.append(el("summary", "", block.title), ...block.blocks.map(blockOf));
    return fold;
  }
  return tableOf(block);
}

const open = new Set(); // folds stay as they were left
let across = []; // and so do tables that were moved sideways: heard, since to ask would lay the page out at every sheet
box.addEventListener("scroll", () => { across = Array.from(box.querySelectorAll(".sv-scroll"), (node) => node.scrollLeft); }, true);

function update() {
  const v = props.value;
  // What is being used keeps the keyboard: it is drawn anew under the hand that changed it.
  const held = document.activeElement?.closest(".sv-root") === root ? document.activeElement.dataset.name : null;
  box.textContent = "";
  if (v && v.blocks) box.append(...v.blocks.map(blockOf));
  box.querySelectorAll(".sv-scroll").forEach((node, i) => { if (across[i]) node.scrollLeft = across[i]; });
  // Only what can be scrolled is a stop of the keyboard.
  requestAnimationFrame(() => box.querySelectorAll(".sv-scroll").forEach((node) => {
    if (node.scrollWidth > node.clientWidth + 1) node.tabIndex = 0;
  }));
  if (held) box.querySelector(`[data-name="${CSS.escape(held)}"]`)?.focus();
}
watch("value", update);
update();
