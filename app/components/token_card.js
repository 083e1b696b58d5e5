// The card of one token: its probabilities, the rule in words and what else could have stood there.
function fact(list, name, value) {
  list.append(el("dt", "", name), el("dd", "", value));
}

function rule(info) {
  const t = info.token;
  if (info.kind === "recovered") return L.rule_recovered;
  if (info.kind === "bonus") return L.rule_bonus;
  if (info.kind === "plain") return L.rule_plain;
  if (info.kind === "ignored") return L.rule_ignored;
  const first = info.step.proposals.findIndex((p) => p.status === "rejected");
  if (info.kind === "rejected" && info.position > first) return L.rule_untested;
  if (t.u === null || t.u === undefined) return info.kind === "accepted" ? L.rule_same : L.rule_other;
  return say(info.kind === "accepted" ? "rule_accepted" : "rule_rejected", { u: prob(t.u), a: prob(t.accept) });
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

function fillCard(card, info, greedy) {
  const { token, kind, position, step } = info;
  card.textContent = "";
  const head = el("div", "sv-card-head");
  head.append(el("span", "sv-card-token", tokenLabel(token)), el("span", "sv-card-kind", say("kind_" + kind)));
  const where = el("div", "sv-card-where", say(position === undefined ? "card_where" : "card_where_position",
    { step: step.index + 1, position: position + 1, id: token.id }));
  const facts = el("dl", "sv-facts");
  if (token.p !== undefined) fact(facts, "p", prob(token.p));
  if (token.q !== undefined) {
    fact(facts, "q", prob(token.q));
    fact(facts, "u", token.u === null ? "–" : prob(token.u));
    fact(facts, L.card_accept, prob(token.accept));
  }
  card.append(head, where, facts, el("p", "sv-rule", rule(info)));
  if (token.special) card.append(el("p", "sv-card-where", L.card_special));
  if (token.bytes) card.append(el("p", "sv-card-where", L.card_bytes));
  if (token.target && token.target.length) card.append(alternatives(greedy ? L.card_target_greedy : L.card_target, token.target, token));
  if (token.draft && token.draft.length) card.append(alternatives(L.card_draft, token.draft, token));
}
