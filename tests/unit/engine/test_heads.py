"""The heads' modules, what training makes of them at once, and the loss and the counts that training goes by."""

import pytest
import torch
import torch.nn.functional as F
from helpers.models import tiny_llama

from engine.errors import EngineError
from engine.heads.eagle import EagleHead, EagleShape
from engine.heads.medusa import MedusaHeads, MedusaShape
from engine.runner import Runner
from engine.train import evaluate
from engine.train.distil import distil, labels_of
from engine.train.held_out import _chains, _walk
from engine.train.settings import TrainSettings
from engine.train.teacher import Teacher
from engine.train.texts import Text, batches, frequent, split
from engine.train.unroll import unroll

pytestmark = pytest.mark.usefixtures("one_thread")
HIDDEN, VOCAB, DRAFT = 32, 64, 40
FORMS = ("eagle", "eagle3")


def shape_of(form, **instead):
    taps = (-1,) if form == "eagle" else (0, 1, -1)
    told = {
        "form": form, "hidden_size": HIDDEN, "intermediate_size": 48, "num_heads": 4, "num_kv_heads": 2, "head_dim": 8,
        "vocab_size": VOCAB, "draft_vocab_size": DRAFT, "taps": taps, "input_norm": form == "eagle3",
    }  # fmt: skip
    return EagleShape(**{**told, **instead})


def eagle(form="eagle3", seed=0, **instead):
    torch.manual_seed(seed)
    shape = shape_of(form, **instead)
    table, rows = torch.randn(shape.vocab_size, HIDDEN), torch.randn(shape.draft_vocab_size, HIDDEN)
    kept = torch.randperm(shape.vocab_size)[: shape.draft_vocab_size].sort().values
    mapped = kept if shape.draft_vocab_size < shape.vocab_size else None
    head = EagleHead(shape, lambda ids: F.embedding(ids, table), rows, mapped)
    with torch.no_grad():
        for weight in head.parameters():  # norms too: weights of one hide a norm that is left out
            weight.normal_(1.0 if weight.dim() == 1 else 0.0, 0.3)
    return head


def medusa(**instead):
    torch.manual_seed(0)
    told = {"num_heads": 3, "hidden_size": HIDDEN, "vocab_size": VOCAB, "draft_vocab_size": DRAFT}
    shape = MedusaShape(**{**told, **instead})
    rows = torch.randn(DRAFT, HIDDEN) if shape.shared_head else None
    heads = MedusaHeads(shape, rows, torch.randperm(VOCAB)[:DRAFT])
    with torch.no_grad():
        for weight in heads.parameters():
            weight.normal_(0, 0.3)
    return heads


def norm(x, weight):
    return x / (x.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * weight


def by_hand(head, embedded, hidden):
    """The published arithmetic, one query and one attention head at a time. Returns the layer's output [T, hidden]."""
    w = {name: p.detach() for name, p in head.named_parameters()}
    a, m = "layers.0.self_attn.", "layers.0.mlp."
    if head.shape.form == "eagle":
        hidden = torch.cat([embedded, hidden], -1) @ w["fc.weight"].T
        x = hidden
    else:
        normed = norm(hidden, w["layers.0.hidden_norm.weight"])
        x = torch.cat([norm(embedded, w["layers.0.input_layernorm.weight"]), normed], -1)
    q, k, v = (x @ w[f"{a}{n}_proj.weight"].T for n in "qkv")

    def turn(y, t):
        turned = torch.complex(y[:4], y[4:]) * torch.polar(torch.ones(4), t / 10000.0 ** (torch.arange(4) / 4))
        return torch.cat([turned.real, turned.imag])

    out = []
    for t in range(len(x)):
        heads = []
        for h in range(4):
            part, shared = slice(8 * h, 8 * h + 8), slice(8 * (h // 2), 8 * (h // 2) + 8)
            mine = turn(q[t, part], t)
            scores = torch.stack([mine @ turn(k[s, shared], s) for s in range(t + 1)]) / 8**0.5
            heads.append(torch.softmax(scores, 0) @ v[: t + 1, shared])
        out.append(torch.cat(heads))
    y = hidden + torch.stack(out) @ w[f"{a}o_proj.weight"].T
    z = norm(y, w["layers.0.post_attention_layernorm.weight"])
    z = F.silu(z @ w[f"{m}gate_proj.weight"].T) * (z @ w[f"{m}up_proj.weight"].T)
    return y + z @ w[f"{m}down_proj.weight"].T


@pytest.mark.parametrize("form", FORMS)
def test_a_head_computes_what_was_published(form):
    head = eagle(form)
    embedded, hidden = torch.randn(1, 6, HIDDEN), torch.randn(1, 6, HIDDEN)
    out, (k, v) = head(embedded, hidden, torch.arange(6)[None])
    torch.testing.assert_close(out[0], by_hand(head, embedded[0], hidden[0]), rtol=1e-4, atol=1e-4)
    assert k.shape == v.shape == (1, 2, 6, 8)


def test_eagle3_fuses_its_taps_and_norms_before_its_rows_and_eagle1_does_neither():
    three, one = eagle("eagle3"), eagle("eagle")
    features, x = torch.randn(2, 3 * HIDDEN), torch.randn(2, HIDDEN)
    torch.testing.assert_close(three.fuse(features), features @ three.fc.weight.T)
    assert one.fuse(x) is x
    torch.testing.assert_close(three.logits(x), norm(x, three.norm.weight) @ three._head.T, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(one.logits(x), x @ one._head.T)


def test_the_residual_of_a_speculators_head_is_the_normed_state():
    plain, normed = eagle(), eagle(norm_before_residual=True)
    embedded, hidden = torch.randn(1, 1, HIDDEN), torch.randn(1, 1, HIDDEN)
    at = torch.zeros(1, 1, dtype=torch.long)
    first, second = plain.enter(embedded, hidden, at), normed.enter(embedded, hidden, at)
    assert torch.equal(first[0], hidden)
    torch.testing.assert_close(second[0], norm(hidden, plain.layer.hidden_norm.weight), rtol=1e-4, atol=1e-5)
    assert all(torch.equal(a, b) for a, b in zip(first[1:], second[1:], strict=True))


@pytest.mark.parametrize("form", FORMS)
def test_reading_piece_by_piece_says_what_reading_at_once_says(form):
    head, width = eagle(form), 9
    embedded, hidden, at = torch.randn(2, width, HIDDEN), torch.randn(2, width, HIDDEN), torch.arange(width)[None]
    whole, _ = head(embedded, hidden, at)
    past, parts = None, []
    for cut in (slice(0, 4), slice(4, 5), slice(5, width)):
        out, past = head(embedded[:, cut], hidden[:, cut], at[:, cut], past)
        parts.append(out)
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=1e-4, atol=1e-5)


def test_a_mask_keeps_the_branches_of_a_tree_out_of_each_others_sight():
    head = eagle()
    embedded, hidden = torch.randn(1, 5, HIDDEN), torch.randn(1, 5, HIDDEN)
    _, past = head(embedded[:, :3], hidden[:, :3], torch.arange(3)[None])
    mask = torch.zeros(1, 1, 2, 5)
    mask[..., 0, 4] = mask[..., 1, 3] = float("-inf")  # neither sibling sees the other
    both, _ = head(embedded[:, 3:], hidden[:, 3:], torch.tensor([[3, 3]]), past, mask)
    for i in (0, 1):
        one = slice(3 + i, 4 + i)
        alone, _ = head(embedded[:, one], hidden[:, one], torch.tensor([[3]]), past)
        torch.testing.assert_close(both[:, i : i + 1], alone, rtol=1e-4, atol=1e-5)


def test_what_is_the_targets_is_shared_and_never_among_the_heads_own_weights():
    head = eagle()
    assert not {"embed_tokens.weight", "lm_head.weight"} & set(head.state_dict())
    own = EagleHead(shape_of("eagle3", draft_vocab_size=VOCAB))
    assert {"embed_tokens.weight", "lm_head.weight"} <= set(own.state_dict())
    assert own.embed(torch.tensor([[3]])).shape == (1, 1, HIDDEN)
    assert own.logits(torch.randn(2, HIDDEN)).shape == (2, VOCAB)


def test_ids_of_a_reduced_vocabulary_are_told_as_the_targets():
    head = eagle()
    assert torch.equal(head.targets(torch.tensor([[0, 5]])), head.draft_to_target[[0, 5]][None])
    full = eagle(draft_vocab_size=VOCAB)
    assert torch.equal(full.targets(torch.tensor([7])), torch.tensor([7]))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: shape_of("eagle2"), "unknown form"),
        (lambda: shape_of("eagle3", num_kv_heads=3), "cannot share"),
        (lambda: shape_of("eagle3", draft_vocab_size=VOCAB + 1), "no more than 64"),
        (lambda: shape_of("eagle", taps=(0, 1)), "reads one hidden state"),
        (lambda: EagleHead(shape_of("eagle3"), None, None, None), "needs the map"),
        (lambda: EagleHead(shape_of("eagle3"), None, None, torch.arange(DRAFT) + 30), "each below 64"),
        (lambda: EagleHead(shape_of("eagle3"), None, None, torch.zeros(DRAFT, dtype=torch.long)), "twice"),
        (lambda: MedusaHeads(MedusaShape(2, HIDDEN, VOCAB, VOCAB), None), "target's rows"),
        (lambda: MedusaShape(2, HIDDEN, VOCAB, VOCAB, accuracy=((0.5,),)), "for each Medusa head"),
    ],
)
def test_a_head_that_contradicts_itself_is_refused_with_a_sentence(make, said):
    with pytest.raises(EngineError, match=said):
        make()


def test_medusa_heads_are_residual_blocks_over_shared_or_own_rows():
    x = torch.randn(2, 5, HIDDEN)
    heads = medusa(num_layers=2)
    out = heads(x)
    assert out.shape == (2, 5, 3, DRAFT)
    y = x
    for block in heads.blocks[1]:
        y = y + F.silu(y @ block.linear.weight.T + block.linear.bias)
    torch.testing.assert_close(out[:, :, 1], y @ heads._head.T, rtol=1e-4, atol=1e-4)
    own = medusa(shared_head=False)
    block = own.blocks[2][0].linear
    expected = (x + F.silu(x @ block.weight.T + block.bias)) @ own.lm_heads[2].weight.T
    torch.testing.assert_close(own(x)[:, :, 2], expected, rtol=1e-4, atol=1e-4)


def test_an_untrained_medusa_head_says_what_the_target_says():
    rows = torch.randn(VOCAB, HIDDEN)
    heads, x = MedusaHeads(MedusaShape(2, HIDDEN, VOCAB, VOCAB), rows), torch.randn(4, HIDDEN)
    torch.testing.assert_close(heads(x)[:, 1], x @ rows.T)


@pytest.mark.parametrize("form", FORMS)
def test_the_unrolled_pass_is_drafting_step_by_step_from_every_base(form):
    head, long, depths = eagle(form), 9, 4
    ids = torch.randint(0, VOCAB, (1, long))
    features = torch.randn(1, long, len(head.taps) * HIDDEN)
    made = unroll(head, ids, features, depths)
    for base in range(long - depths):
        at = torch.arange(long)[None]
        state, past = head(head.embed(ids[:, 1 : base + 2]), head.fuse(features[:, : base + 1]), at[:, : base + 1])
        state = state[:, -1:]
        for depth in range(depths):
            apart = (made[depth][:, base + depth] - state[:, 0]).abs().max()
            assert apart < 1e-4 * state.abs().max()
            here = slice(base + depth + 1, base + depth + 2)
            if depth + 1 < depths:
                state, past = head(head.embed(ids[:, base + depth + 2 : base + depth + 3]), state, at[:, here], past)


def test_the_loss_and_its_gradient_are_those_of_cross_entropy_with_soft_labels():
    torch.manual_seed(0)
    states, rows = torch.randn(7, HIDDEN, requires_grad=True), torch.randn(DRAFT, HIDDEN)
    labels = labels_of(torch.randn(7, HIDDEN), rows)
    torch.testing.assert_close(labels.sum(-1), torch.ones(7))
    weights = torch.tensor([1.0, 0, 1, 2, 1, 0, 1])
    loss, first = distil(states, rows, labels, weights)
    (grad,) = torch.autograd.grad(3 * loss, states)
    logits = states @ rows.T
    expected = (F.cross_entropy(logits, labels, reduction="none") * weights).sum()
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(grad, torch.autograd.grad(3 * expected, states)[0], rtol=1e-4, atol=1e-4)
    assert torch.equal(first, logits.argmax(-1))


def greedy_texts(model, vocab, count=6, prompt=4, answer=20):
    generator, texts = torch.Generator().manual_seed(1), []
    for _ in range(count):
        ids = torch.randint(0, vocab, (prompt,), generator=generator).tolist()
        for _ in range(answer):
            with torch.no_grad():
                ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
        texts.append(Text(tuple(ids), prompt, True))
    return texts


def drafted_chain(head, features, ids, depths):
    """Token by token, each on the head's own output and its own tokens. features: the target's, of all but the last
    of `ids`, which it has not read."""
    at = torch.arange(len(ids) + depths)[None]
    state, past = head(head.embed(torch.tensor([ids[1:]])), head.fuse(features[None]), at[:, : len(ids) - 1])
    chain = []
    for depth in range(depths):
        chain.append(int(head.targets(head.logits(state[:, -1]).argmax(-1))))
        here = slice(len(ids) - 1 + depth, len(ids) + depth)
        state, past = head(head.embed(torch.tensor([[chain[-1]]])), state[:, -1:], at[:, here], past)
    return chain


@torch.no_grad()
@pytest.mark.parametrize("form", FORMS)
def test_held_out_acceptance_is_that_of_chains_drafted_token_by_token(form):
    vocab, depths = 8, 3  # so few tokens that a random head is right now and then
    model = tiny_llama(vocab=vocab)
    runner, head = Runner(model, "tiny", vocab), eagle(form, vocab_size=vocab, draft_vocab_size=vocab)
    texts = greedy_texts(model, vocab)
    tested, accepted, steps = [0] * depths, [0] * depths, 0
    for text in texts:
        lesson = Teacher(runner, head.taps).read([text.ids])
        likes, skip = lesson.best[0].tolist(), 0
        for length in range(text.answer + 1, len(text.ids) + 1):
            chain = drafted_chain(head, lesson.features[0, : length - 1], list(text.ids[:length]), depths)
            taken = 0
            for depth, token in enumerate(chain[: len(text.ids) + 1 - length]):
                tested[depth] += 1
                if token != likes[length - 1 + depth]:
                    break
                taken += 1
                accepted[depth] += 1
            if not skip:
                steps, skip = steps + 1, taken + 1
            skip -= 1
    assert min(accepted[:2]) > 0, "the test needs a head that is right at times"
    found = evaluate(runner, head, texts, depths, batch_tokens=64)
    assert (list(found.tested), list(found.accepted)) == (tested, accepted)
    assert found.mean_acceptance_length == 6 * 20 / steps
    assert evaluate(runner, head, texts, depths, batch_tokens=4096) == found


def test_counts_follow_from_guesses_and_what_the_target_likes():
    # Text 5 6 7 8 9, its own words from index 1 on; the target likes just that, and 3 behind the last.
    ids, best = torch.tensor([5, 6, 7, 8, 9]), torch.tensor([6, 7, 8, 9, 3])
    found = torch.tensor([[7, 8, 1], [8, 1, 3], [9, 3, -1], [3, -1, -1]])[..., None]  # base 0..3, three deep
    taken, asked, hit, there = _chains(found, best, ids, 0, 5)
    assert asked.tolist() == [[1, 1, 1], [1, 1, 0], [1, 1, 0], [1, 0, 0]]
    assert taken.tolist() == [[1, 1, 0], [1, 0, 0], [1, 1, 0], [1, 0, 0]]
    assert there.sum(0).tolist() == [3, 2, 1]
    assert hit[..., 0].sum(0).tolist() == [3, 1, 0]
    # From base 0 two are taken and one is the target's own: on at base 3, where the text ends.
    assert _walk(taken.sum(1).tolist()) == (2, 4)


def test_a_position_is_not_tested_where_the_text_has_left_the_targets_choice():
    ids, best = torch.tensor([5, 6, 2, 8]), torch.tensor([6, 7, 8, 1])  # token 2 was sampled, 7 was likelier
    found = torch.tensor([[7, 8], [8, 1], [1, -1]])[..., None]
    taken, asked, _, _ = _chains(found, best, ids, 0, 4)
    assert taken[0].tolist() == [True, False]
    assert asked[0].tolist() == [True, False]


def test_lines_are_held_out_by_seed_and_stay_so_when_more_are_added():
    texts = [Text((i, i + 1, 3, 4, 5), 2, True) for i in range(200)]
    train, held = split(texts, 0.2, 0)
    assert not {t.ids for t in train} & {t.ids for t in held}
    assert 20 <= len(held) <= 60
    more = [*texts, *(Text((i, 9, 9, 9), 2, True) for i in range(100))]
    assert {t.ids for t in held} <= {t.ids for t in split(more, 0.2, 0)[1]}
    assert {t.ids for t in held} != {t.ids for t in split(texts, 0.2, 1)[1]}


def test_batches_hold_every_text_once_within_their_size_and_differ_by_epoch_alone():
    texts = [Text(tuple(range(3 + i % 17)), 1, True) for i in range(300)]
    order = batches(texts, 64, 0, 0)
    assert sorted(i for b in order for i in b) == list(range(300))
    assert all(len(b) * max(len(texts[i].ids) for i in b) <= 64 for b in order)
    assert order == batches(texts, 64, 0, 0) != batches(texts, 64, 0, 1)


def test_the_draft_vocabulary_is_the_most_frequent_ids_in_order():
    texts = [
        Text((7, 7, 7, 5, 5, 9), 6, False),
        Text((1, 2, 2), 1, True),
    ]  # 2 is the target's own word: it counts twice
    assert frequent(texts, 3, 16).tolist() == [2, 5, 7]
    assert frequent(texts, 8, 16).tolist() == [0, 1, 2, 3, 4, 5, 7, 9]


@pytest.mark.parametrize("bad", [{"lr": 0}, {"lr": float("nan")}, {"epochs": 0}, {"unroll": 17}, {"method": "x"}])
def test_settings_without_meaning_are_refused(bad):
    with pytest.raises(EngineError):
        TrainSettings(**bad)
