// A drafted tree as branches: depth runs to the right, the accepted path is the straight line on top, and each guess
// that leaves it hangs below the place where it does.
const FATE_MARKS = { accepted: "✓", rejected: "✕", ignored: "–", unreached: "", untested: "" };

// What the records leave unsaid: each proposal's place in the tree and what became of it.
function completeStep(step) {
  const stands = new Set(step.emitted.filter((e) => e.kind === "accepted").map((e) => e.proposal));
  step.children = new Map();
  step.path = step.emitted.filter((e) => e.kind === "accepted").map((e) => e.proposal);
  step.proposals.forEach((p, i) => {
    p.target = step.tops[p.parent] || [];
    p.depth = p.parent < 0 ? 0 : step.proposals[p.parent].depth + 1;
    if (!step.children.has(p.parent)) step.children.set(p.parent, []);
    p.nth = step.children.get(p.parent).push(i);
  });
  step.proposals.forEach((p) => {
    const reached = p.parent < 0 || stands.has(p.parent);
    // Where draws decide, the siblings behind the one that was taken had no test.
    const untested = p.u === null && !greedy && verifier !== "typical";
    p.of = step.children.get(p.parent).length;
    p.fate = p.status !== "rejected" ? p.status : !reached ? "unreached" : untested ? "untested" : "rejected";
  });
  step.end = step.path.length ? step.path[step.path.length - 1] : -1;
  return step;
}

// Where each node stands: { index (null: the replacement), parent, column, row }, from the top row down.
function layOut(step) {
  const found = [], fall = (i) => (step.proposals[i].fate === "accepted" ? 0 : 1);
  let last = 0;
  function below(parent, column, row) {
    const here = (step.children.get(parent) || []).slice().sort((a, b) => fall(a) - fall(b) || a - b);
    if (parent === step.end && step.replacement) here.unshift(null);
    here.forEach((index, n) => {
      const at = n === 0 ? row : ++last;
      found.push({ index, parent, column, row: at, from: row });
      if (index !== null) below(index, column + 1, at);
    });
  }
  below(-1, 1, 0);
  return found;
}

function sourceBadge(name) {
  return el("span", "sv-source", L["drafter_" + name] || visible(name, true));
}

// At temperature 0 the law is one-hot, and says less than the model's own softmax, of which the likeliest are recorded.
function chance(token, tops) {
  if (!greedy || !tops.length) return prob(token.p);
  const own = tops.find((a) => a.id === token.id);
  return own ? prob(own.p) : "<" + prob(Math.max(tops[tops.length - 1].p, 0.001)).replace("<", "");
}

function treeNode(step, place, info) {
  const proposal = place.index === null ? null : step.proposals[place.index];
  const token = proposal || step.replacement;
  const fate = proposal ? proposal.fate : step.replacement.kind;
  const depth = place.column, p = chance(token, token.target || []);
  const node = el("div", "tk sv-node sv-node-" + fate);
  const words = proposal ? say("fate_" + fate) : say("kind_" + fate);
  node.info = info(token, proposal ? proposal.status : step.replacement.kind, proposal ? proposal.depth : undefined);
  node.place = place;
  node.tabIndex = -1;
  node.setAttribute("role", "treeitem");
  node.setAttribute("aria-level", String(depth + 1));
  node.setAttribute("aria-label", say("tree_node", { token: tokenLabel(token), depth, fate: words, p }) +
    (token.source ? ", " + (L["drafter_" + token.source] || token.source) : ""));
  const facts = el("span", "sv-node-facts");
  const mark = FATE_MARKS[fate] || (fate === "recovered" ? "↺" : fate === "bonus" ? "+" : "");
  if (mark) facts.append(el("span", "sv-node-mark", mark));
  facts.append(el("span", "", "p " + p));
  // q is 1 wherever nothing was drawn, as in every tree: said where it says something.
  if (proposal && proposal.q !== 1) facts.append(el("span", "", say("tree_node_q", { q: prob(proposal.q) })));
  // Where all come from one method the caption alone says so.
  if (token.source && Object.keys(sourcesOf(step)).length > 1) facts.append(sourceBadge(token.source));
  node.append(el("span", "sv-node-token", tokenLabel(token)), facts);
  return node;
}

function placed(node, column, row, rows) {
  node.style.gridColumn = String(column);
  node.style.gridRow = row + 1 + " / span " + (rows || 1);
  return node;
}

// How many proposals each method gave, where a draft mixes several.
function sourcesOf(step) {
  const counts = {};
  for (const p of step.proposals) if (p.source) counts[p.source] = (counts[p.source] || 0) + 1;
  return counts;
}

function treeCaption(step) {
  const counts = sourcesOf(step);
  const deepest = Math.max(...step.proposals.map((p) => p.depth)) + 1;
  let text = say("tree_caption", { n: num(step.proposals.length, 0), depth: num(deepest, 0), a: num(step.path.length, 0) });
  const names = Object.keys(counts).map((name) => (L["drafter_" + name] || visible(name, true)) + " " + num(counts[name], 0));
  if (names.length) text += " " + say("tree_sources", { list: names.join(", ") });
  return greedy ? text + " " + L.tree_greedy : text;
}

// before: the context's last token, or null.
function drawTree(step, before, info) {
  const box = el("div", "sv-branches");
  box.append(el("p", "sv-branches-caption", treeCaption(step)));
  const scroll = el("div", "sv-branches-scroll");
  const tree = el("div", "sv-tree");
  tree.setAttribute("role", "tree");
  tree.setAttribute("aria-label", say("tree_label", { step: step.index + 1 }));
  const start = el("div", "sv-node sv-node-root");
  start.setAttribute("aria-hidden", "true");
  start.append(el("span", "sv-node-token", before ? tokenLabel(before) : "…"), el("span", "sv-node-facts", L.tree_root));
  tree.append(placed(start, 1, 0));
  const places = layOut(step);
  for (const place of places) {
    const fate = place.index === null ? step.replacement.kind : step.proposals[place.index].fate;
    const edge = el("span", "sv-edge sv-edge-" + fate);
    edge.setAttribute("aria-hidden", "true");
    tree.append(placed(edge, 2 * place.column, place.from, place.row - place.from + 1));
  }
  // The accepted path's lines lie over the others'.
  for (const place of places) tree.append(placed(treeNode(step, place, info), 2 * place.column + 1, place.row));
  scroll.append(tree);
  box.append(scroll);
  return box;
}

// Right goes deeper, left back, up and down through the rows of one depth or the nearest to it.
function walkTree(node, key) {
  const all = Array.from(node.parentElement.querySelectorAll(".tk")), here = node.place;
  const near = (rows) => rows.sort((a, b) => Math.abs(a.place.row - here.row) - Math.abs(b.place.row - here.row) ||
    Math.abs(a.place.column - here.column) - Math.abs(b.place.column - here.column))[0];
  if (key === "ArrowRight") return all.find((n) => n.place.parent === here.index && here.index !== null);
  if (key === "ArrowLeft") return all.find((n) => n.place.index === here.parent && n.place.index !== null);
  if (key === "ArrowDown") return near(all.filter((n) => n.place.row > here.row));
  if (key === "ArrowUp") return near(all.filter((n) => n.place.row < here.row));
  return undefined;
}
