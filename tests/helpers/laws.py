"""Exact laws by enumeration, and the chi-square test that the sampled ones are held against."""

import itertools
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from unittest import mock

import numpy as np
import torch
from scipy.stats import chisquare

import engine
from engine.verify import chain

ALPHA = 1e-4  # a right rule fails one seeded check in ten thousand; every wrong one here is below 1e-12


@contextmanager
def scripted_chance(module=chain, **wrong):
    """A rule with its two sources of chance in the test's hands: `control.uniforms` are the uniforms, and `control.law`
    is, after a call, the law that the last token was to be drawn from. module: the rule's. wrong: functions of it to
    replace by faulty ones."""
    control = SimpleNamespace(uniforms=None, law=None)

    def uniforms(count, generators, device):
        assert len(control.uniforms) == count - 1  # the last one draws the token that ends the step
        return torch.tensor([[*control.uniforms, 0.5]], dtype=torch.float64, device=device)

    def pick(law, u):
        control.law = law[0].double().numpy()
        return torch.tensor([[int(np.argmax(control.law))]])

    with ExitStack() as stack:
        for name, function in {"uniforms": uniforms, "pick": pick, **wrong}.items():
            stack.enter_context(mock.patch.object(module, name, function))
        yield control


def exact_law(p, q, vocab, k, method, deterministic=None, used_p=None, used_q=None, dtype=torch.float64, **wrong):
    """The law of the first k+1 tokens that the rule emits, and its expected number of accepted tokens.

    p, q: functions prefix -> law [vocab]. Every draft path and every outcome of the k accept tests is run once and
    weighted by its probability; where fewer than k+1 tokens come out, the target goes on alone.
    deterministic: a function prefix -> token in place of q (then verify_chain is given no law, or used_q).
    used_p, used_q: what the rule is told in place of the truth, for faulty callers.
    """
    told_p, told_q = used_p or p, used_q or (None if deterministic else q)
    law, mean = {}, 0.0
    with scripted_chance(**wrong) as control:
        for path in itertools.product(range(vocab), repeat=k):
            if deterministic:
                weight = float(all(path[i] == deterministic(path[:i]) for i in range(k)))
            else:
                weight = float(np.prod([q(path[:i])[path[i]] for i in range(k)]))
            if weight == 0:
                continue
            p_rows = torch.tensor(np.array([told_p(path[:i]) for i in range(k + 1)]), dtype=dtype)
            q_rows = None
            if told_q:
                q_rows = torch.tensor(np.array([told_q(path[:i]) for i in range(k)]).reshape(k, vocab), dtype=dtype)
            control.uniforms = [0.5] * k
            accept = engine.verify_chain(p_rows, path, q_rows, method).accept_probs.tolist()
            for passes in itertools.product((True, False), repeat=k):
                chance = float(np.prod([a if ok else 1 - a for a, ok in zip(accept, passes, strict=True)]))
                if chance <= 0:
                    continue
                # Halfway into each interval: below the threshold passes, at or above it does not.
                control.uniforms = [a / 2 if ok else (1 + a) / 2 for a, ok in zip(accept, passes, strict=True)]
                v = engine.verify_chain(p_rows, path, q_rows, method)
                mean += weight * chance * v.num_accepted
                spread(law, path[: v.num_accepted], control.law, weight * chance, p, vocab, k + 1)
    return law, mean


def spread(law, accepted, last, weight, p, vocab, length):
    for token in range(vocab):
        if last[token] > 0:
            _go_on(law, (*accepted, token), weight * last[token], p, vocab, length)


def _go_on(law, prefix, weight, p, vocab, length):
    if len(prefix) == length:
        law[prefix] = law.get(prefix, 0.0) + weight
        return
    for token, share in enumerate(p(prefix)):
        if share > 0:
            _go_on(law, (*prefix, token), weight * share, p, vocab, length)


def target_law(p, vocab, length):
    """What plain sampling emits: the product of the target's laws."""
    law = {}
    _go_on(law, (), 1.0, p, vocab, length)
    return law


def distance(a, b):
    """The largest difference between two laws over sequences."""
    return max(abs(a.get(s, 0.0) - b.get(s, 0.0)) for s in {*a, *b})


def first_token(law, vocab):
    out = np.zeros(vocab)
    for sequence, share in law.items():
        out[sequence[0]] += share
    return out


def expected_accepted(p, q, vocab, k, method):
    """From the papers. rejection: Leviathan 2023, the product of min(p, q) along a path. block: Sun et al. 2024, a
    prefix stands with its capped likelihood ratio. match: the target drew the same token."""
    total = 0.0
    for length in range(1, k + 1):
        for path in itertools.product(range(vocab), repeat=length):
            pairs = [(p(path[:i])[path[i]], q(path[:i])[path[i]]) for i in range(length)]
            drafted = float(np.prod([b for _, b in pairs]))
            if method == "rejection":
                total += float(np.prod([min(a, b) for a, b in pairs]))
            elif method == "match":
                total += float(np.prod([a for a, _ in pairs])) * drafted
            elif drafted:
                ratio = 1.0
                for a, b in pairs:
                    ratio = min(1.0, ratio * a / b)
                total += drafted * ratio
    return total


def random_laws(rng, vocab, depth, zeros=0.3):
    """A function prefix -> law [vocab], random for every prefix up to depth, with some tokens impossible."""
    laws = {}
    for length in range(depth + 1):
        for prefix in itertools.product(range(vocab), repeat=length):
            row = rng.dirichlet(np.ones(vocab)) * (rng.random(vocab) >= zeros)
            if row.sum() <= 0:
                row[rng.integers(vocab)] = 1.0
            laws[prefix] = row / row.sum()
    return laws.__getitem__


def chi_square(counts, law):
    """p-value of counts under law. 0 when something impossible was seen. Cells expecting under 5 are pooled."""
    counts = np.asarray(counts, dtype=float)
    expected = np.asarray(law, dtype=float) * counts.sum()
    if counts[expected <= 0].sum() > 0:
        return 0.0
    counts, expected = counts[expected > 0], expected[expected > 0]
    small = expected < 5
    if small.any():
        counts = np.append(counts[~small], counts[small].sum())
        expected = np.append(expected[~small], expected[small].sum())
    if len(counts) < 2:
        return 1.0
    return float(chisquare(counts, expected * counts.sum() / expected.sum()).pvalue)


def emitted_counts(p_rows, q_rows, drafts, vocab, trials, seed=0, method="rejection", told_q="q", judge=None):
    """How often each token came first in `trials` runs of the real verify_chain with a real generator.

    drafts: [trials, k] tokens already drawn by the caller. told_q: "q" hands q_rows over, None hands over nothing.
    """
    judge = judge or engine.verify_chain
    generator = torch.Generator().manual_seed(seed)
    counts = np.zeros(vocab, dtype=int)
    for draft in drafts[:trials].tolist():
        v = judge(p_rows, draft, q_rows if told_q == "q" else None, method, generator)
        counts[draft[0] if v.num_accepted else v.next_token] += 1
    return counts


def numpy_rule(rng, residual="divided", bonus="drawn"):
    """Leviathan's rule in ten lines, to be made wrong one line at a time. Same call as verify_chain."""

    def judge(p, x, q, method=None, generator=None):
        p, q = np.asarray(p), np.asarray(q)
        for i, token in enumerate(x):
            if rng.random() >= p[i][token] / q[i][token]:
                left = np.maximum(p[i] - q[i], 0)
                if residual == "softmax":
                    left = np.exp(left)
                if residual == "none":
                    left = p[i]
                return SimpleNamespace(num_accepted=i, next_token=int(rng.choice(len(left), p=left / left.sum())))
        last = p[len(x)]
        token = int(np.argmax(last)) if bonus == "greedy" else int(rng.choice(len(last), p=last / last.sum()))
        return SimpleNamespace(num_accepted=len(x), next_token=token)

    return judge
