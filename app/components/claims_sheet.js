// What a claim's sheet has besides sheet.js: a verdict, whose words are said to be of which language, and addresses.
const plainFigure = figure, plainBlock = blockOf;

function linkTo(address) {
  const a = el("a", "sv-address", visible(address, false));
  a.href = address;
  a.target = "_blank";
  a.rel = "noopener noreferrer";
  return a;
}

// sheet.js draws through these names, so they are what it calls from here on.
figure = (cell) => {
  const node = plainFigure(cell);
  if (cell && cell.lang) node.firstChild.lang = cell.lang;
  // Nothing but the web's own addresses: "javascript:" is no place to go to.
  for (const address of (cell && cell.links) || []) if (/^https?:\/\//i.test(address)) node.append(linkTo(address));
  return node;
};

blockOf = (block) => {
  if (block.type === "heading") return el("h4", "sv-claim-head", visible(block.text, false));
  if (block.type === "verdict") {
    const p = el("p", "sv-claim-verdict");
    const mark = el("span", "sv-badge", block.text);
    mark.dataset.label = block.kind;
    p.append(mark, el("span", "sv-quiet", visible(block.told, false)));
    return p;
  }
  const node = plainBlock(block);
  if (block.lang) node.lang = block.lang;
  for (const kind of ["steps", "limits", "lines"]) if (block[kind]) node.classList.add("sv-claim-table", "sv-claim-" + kind);
  if (block.by) {
    const by = el("span", "sv-quiet", " " + visible(block.by, false));
    by.lang = language;
    node.append(by);
  }
  return node;
};
update();
