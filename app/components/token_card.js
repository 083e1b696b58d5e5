// The card of one token: its probabilities, the rule in words and what else could have stood there.
function fact(list, name, value) {
  list.append(el("dt", "", name), el("dd", "", value));
}

// A u and what it was held against, with as many digits as tell them apart.
function pair(u, a) {
  const digits = [3, 4, 5].find((n) => num(u, n) !== num(a, n)) || 5;
  return { u: num(u, digits), a: num(a, digits) };
}

// Why a proposal stands or fell, in the words of the verifier that judged it.
function rule(info, greedy, verifier) {
  const t = info.token, accepted = info.kind === "accepted", proposals = info.step.proposals;
  if (info.kind !== "accepted" && info.kind !== "rejected") return say("rule_" + info.kind + (info.kind === "bonus" && info.step.tree ? "_tree" : ""));
  if (greedy) return accepted ? L.rule_same : t.fate === "unreached" ? L.rule_after : L.rule_other;
  if (verifier === "typical") return accepted ? L.rule_typical_accepted : t.accept < 1 ? L.rule_typical_rejected : L.rule_typical_other;
  const tree = info.step.tree;
  if (t.u === null || t.u === undefined) return !tree ? L.rule_untested : t.fate === "untested" ? L.rule_sibling : L.rule_branch;
  const values = pair(t.u, t.accept);
  if (tree) return say(accepted ? "rule_accepted" : "rule_tree_rejected", values);
  if (verifier === "match") return say(accepted ? "rule_match_accepted" : "rule_match_rejected", values);
  if (verifier !== "block") return say(accepted ? "rule_accepted" : "rule_rejected", values);
  // Every prefix is tested and the longest that passes is kept, so a token may stand though its own prefix fails.
  const kept = proposals.reduce((longest, p, i) => (p.passed ? i + 1 : longest), 0);
  return say(t.passed ? "rule_block_passes" : "rule_block_fails", values) + " " +
    say(kept ? "rule_block_kept" : "rule_block_none", { tau: kept }) + " " + say("kind_" + info.kind) + ".";
}

function alternatives(title, items, token) {
  const box = el("div", "sv-alternatives");
  box.append(el("h5", "", title));
  for (const a of items) {
    const line = el("div", "sv-alternative" + (a.id === token.id ? " is-this" : ""));
    const track = el("span", "sv-track");
    const fillBar = el("span", "sv-fill");
    fillBar.style.width = Math.max(1, Math.min(100, (a.p || 0) * 100)) + "%";
    track.append(fillBar);
    line.append(el("span", "sv-alternative-text", tokenLabel(a)), track, el("span", "sv-alternative-p", prob(a.p)));
    box.append(line);
  }
  return box;
}

function fillCard(card, info, greedy, verifier) {
  const { token, kind, position, step } = info;
  card.textContent = "";
  const head = el("div", "sv-card-head");
  head.append(el("span", "sv-card-token", tokenLabel(token)), el("span", "sv-card-kind", say("kind_" + kind)));
  const key = position === undefined ? "card_where" : step.tree ? "card_where_tree" : "card_where_position";
  const where = el("div", "sv-card-where",
    say(key, { step: step.index + 1, position: position + 1, id: token.id, nth: token.nth, of: token.of }));
  if (token.source) where.append(" · " + L.card_source + " ", sourceBadge(token.source));
  const facts = el("dl", "sv-facts");
  if (token.p !== undefined) fact(facts, "p", prob(token.p));
  if (token.q !== undefined) {
    fact(facts, "q", prob(token.q));
    fact(facts, "u", token.u === null ? "–" : prob(token.u));
    fact(facts, say("card_accept_" + (step.tree && verifier !== "typical" ? "tree" : verifier)), prob(token.accept));
  }
  card.append(head, where, facts, el("p", "sv-rule", rule(info, greedy, verifier)));
  if (token.special) card.append(el("p", "sv-card-where", L.card_special));
  if (token.bytes) card.append(el("p", "sv-card-where", L.card_bytes));
  if (token.target && token.target.length) card.append(alternatives(greedy ? L.card_target_greedy : L.card_target, token.target, token));
  if (token.draft && token.draft.length) card.append(alternatives(L.card_draft, token.draft, token));
}
