"""The law of a drafted tree by enumeration, and the rule once more in plain steps, to be made wrong one at a time."""

import itertools

import numpy as np
import torch

import engine
from engine.verify import tree
from helpers.laws import scripted_chance, spread


def line(parents, i):
    """Indexes of the tokens from the first to i, in order."""
    found = []
    while i >= 0:
        found.insert(0, i)
        i = parents[i]
    return found


def prefix(tokens, parents, i):
    """The tokens from the first to the one at i; nothing for -1."""
    return tuple(tokens[j] for j in line(parents, i))


def height(parents):
    return max((len(line(parents, i)) for i in range(len(parents))), default=0)


def rows_of(p, tokens, parents):
    """[n+1, V]: the target's law behind the context and behind each token. p: a function prefix -> law."""
    return np.array([p(prefix(tokens, parents, i)) for i in range(-1, len(tokens))])


def outcomes(p_rows, tokens, parents, q_rows=None, dtype=torch.float64, **wrong):
    """What verify_tree can come to: (probability, path, law of the token behind it), all of its accept tests both ways.
    wrong: functions of the module to replace by faulty ones."""
    p = torch.tensor(np.asarray(p_rows), dtype=dtype)
    q = None if q_rows is None else torch.tensor(np.asarray(q_rows), dtype=dtype)
    with scripted_chance(tree, **wrong) as control:
        control.uniforms = [0.5] * len(tokens)
        accept = engine.verify_tree(p, tokens, parents, q).accept_probs.tolist()
        for passes in itertools.product((True, False), repeat=len(tokens)):
            chance = float(np.prod([a if ok else 1 - a for a, ok in zip(accept, passes, strict=True)]))
            if chance <= 0:
                continue
            control.uniforms = [a / 2 if ok else (1 + a) / 2 for a, ok in zip(accept, passes, strict=True)]
            yield chance, engine.verify_tree(p, tokens, parents, q).path, control.law


def by_hand(p_rows, tokens, parents, fault=None, at=-1, share=1.0):
    """The same of a deterministic tree by the definition: children in order, each against what those before left.
    fault: "unreduced" tests each against p itself; "shared" holds one uniform against all siblings; "kept" leaves the
    rejected ones in the law of the token behind."""
    p = np.asarray(p_rows[at + 1], dtype=float)
    left, taken, alone = 1.0, 0.0, share
    for child in (i for i, parent in enumerate(parents) if parent == at):
        mass = p[tokens[child]]
        accept = mass if fault == "unreduced" else min(mass / left, 1.0) if left > 1e-12 else 0.0
        won = share * max(accept - taken, 0.0) if fault == "shared" else alone * accept
        taken, left = max(taken, accept), left - mass
        alone -= won
        if won > 0:
            yield from by_hand(p_rows, tokens, parents, fault, child, won)
    if alone > 1e-12:
        rest = p.copy()
        if fault != "kept":
            rest[[tokens[i] for i, parent in enumerate(parents) if parent == at]] = 0.0
        yield alone, tuple(line(parents, at)), rest / rest.sum() if rest.sum() > 0 else p


def law_of(found, tokens, p, vocab, length):
    """The law of the first `length` tokens of `found`, as `outcomes` gives it; the target goes on alone behind."""
    law = {}
    for chance, path, last in found:
        spread(law, tuple(tokens[i] for i in path), last, chance, p, vocab, length)
    return law


def tree_law(p, tokens, parents, vocab, **kwargs):
    """verify_tree's own, for a deterministic tree."""
    found = outcomes(rows_of(p, tokens, parents), tokens, parents, **kwargs)
    return law_of(found, tokens, p, vocab, height(parents) + 1)


def drawn_trees(q, parents, vocab):
    """Every tree of this shape whose siblings are drawn without replacement from q(prefix): (probability, tokens, the
    law that each was drawn from)."""

    def grow(tokens, laws, chance):
        i = len(tokens)
        if i == len(parents):
            yield chance, tokens, laws
            return
        row = np.array(q(prefix(tokens, parents, parents[i])), dtype=float)
        row[[tokens[j] for j in range(i) if parents[j] == parents[i]]] = 0.0
        if row.sum() <= 0:
            return
        row /= row.sum()
        for token in range(vocab):
            if row[token] > 0:
                yield from grow([*tokens, token], [*laws, row], chance * row[token])

    yield from grow([], [], 1.0)


def drawn_law(p, q, parents, vocab, **kwargs):
    """verify_tree's law, for children that are drawn from q."""
    total = {}
    for chance, tokens, laws in drawn_trees(q, parents, vocab):
        found = outcomes(rows_of(p, tokens, parents), tokens, parents, laws, **kwargs)
        for sequence, share in law_of(found, tokens, p, vocab, height(parents) + 1).items():
            total[sequence] = total.get(sequence, 0.0) + chance * share
    return total
