"""Draft heads for tests: a tiny target that shows its hidden states, random heads, and a head written out plainly."""

import torch
import torch.nn.functional as F

from engine.heads import EagleHead, EagleShape
from helpers.models import tiny_llama


class Target:
    """What a head asks of a runner, over transformers' own forward."""

    def __init__(self, vocab=64, layers=6, seed=0, padded=0, quantization=None):
        self.model = tiny_llama(vocab=vocab + padded, layers=layers, seed=seed)
        self.config, self.name = self.model.config, "a tiny llama"
        self.vocab_size, self.embedding_rows, self.num_layers = vocab, vocab + padded, layers
        self.device, self.dtype, self.quantization, self.fused = torch.device("cpu"), torch.float32, quantization, None

    def embed(self, ids):
        return self.model.get_input_embeddings()(ids)

    def head_rows(self, ids=None):
        weight = self.model.get_output_embeddings().weight.detach()
        return (weight if ids is None else weight[ids]).float()

    @torch.no_grad()
    def states(self, ids, taps):
        """For each tap [len(ids), hidden], from one forward over all of `ids`."""
        hidden = self.model(torch.tensor([ids]), output_hidden_states=True).hidden_states
        return {tap: hidden[tap][0] for tap in taps}


def random_head(target, form="eagle3", draft_vocab=None, own_rows=False, own_embeddings=False, seed=1, **extra):
    """Weights large enough for the head's guesses to differ from token to token."""
    torch.manual_seed(seed)
    vocab = target.embedding_rows
    shape = EagleShape(
        form=form, hidden_size=32, intermediate_size=48, num_heads=4, num_kv_heads=2, head_dim=8, vocab_size=vocab,
        draft_vocab_size=draft_vocab or vocab, taps=(1, 3, 5) if form == "eagle3" else (-1,),
        input_norm=form == "eagle3", **extra,
    )  # fmt: skip
    ids = None if draft_vocab is None else torch.randperm(vocab)[:draft_vocab].sort().values
    rows = None if own_rows else target.head_rows(ids)
    head = EagleHead(shape, None if own_embeddings else target.embed, rows, ids)
    with torch.no_grad():
        for name, p in head.named_parameters():
            if p.ndim == 2:
                p.normal_(0, 0.3)
            else:
                p.normal_(1.0, 0.2) if "norm" in name else p.normal_(0, 0.2)
    return head.eval()


def plain_norm(x, weight, eps):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * weight


def plain_rope(x, position, theta):
    """x [heads, dim] at one position, halves paired."""
    half = x.shape[-1] // 2
    angle = position / theta ** (torch.arange(half).double() / half)
    a, b = x[:, :half].double(), x[:, half:].double()
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1).float()


@torch.no_grad()
def plain_outputs(head, embeddings, states, start=0):
    """The head over a whole text, position by position, with nothing kept: from embeddings [n, hidden] of the tokens
    behind each position and the positions' states [n, hidden] -> [n, hidden]. start: the first position."""
    shape, w = head.shape, head.state_dict()
    eps, heads, kv, dim = shape.rms_norm_eps, shape.num_heads, shape.num_kv_heads, shape.head_dim
    keys, values, outs = [], [], []

    def layer(name):
        return w[f"layers.0.{name}.weight"]

    for t, (e, h) in enumerate(zip(embeddings, states, strict=True)):
        if shape.form == "eagle3":
            normed = plain_norm(h, layer("hidden_norm"), eps)
            x = torch.cat([plain_norm(e, layer("input_layernorm"), eps), normed])
            residual = normed if shape.norm_before_residual else h
        else:
            x = residual = w["fc.weight"] @ torch.cat([e, h]) + w.get("fc.bias", 0.0)
        q = plain_rope((layer("self_attn.q_proj") @ x).view(heads, dim), start + t, shape.rope_theta)
        keys.append(plain_rope((layer("self_attn.k_proj") @ x).view(kv, dim), start + t, shape.rope_theta))
        values.append((layer("self_attn.v_proj") @ x).view(kv, dim))
        seen_k, seen_v = (
            torch.stack(s).repeat_interleave(heads // kv, 1) for s in (keys, values)
        )  # [t + 1, heads, dim]
        weights = torch.softmax(torch.einsum("hd,thd->ht", q, seen_k) / dim**0.5, -1)
        x = residual + layer("self_attn.o_proj") @ torch.einsum("ht,thd->hd", weights, seen_v).reshape(-1)
        y = plain_norm(x, layer("post_attention_layernorm"), eps)
        y = layer("mlp.down_proj") @ (F.silu(layer("mlp.gate_proj") @ y) * (layer("mlp.up_proj") @ y))
        outs.append(x + y)
    return torch.stack(outs)


class Plain:
    """Guesses of a head for one context, each made anew from the whole of it."""

    def __init__(self, head, target, context, start=0, shift=0):
        """start: positions before it were never read. shift: pairs each token with the state so many positions off."""
        self.head, self.target, self.start = head, target, start
        features = target.states(context[: len(context) - 1], head.taps)
        joined = torch.cat([features[t] for t in head.taps], -1)[start:]
        w = head.state_dict()
        if head.shape.form == "eagle3":
            joined = joined @ w["fc.weight"].T + w.get("fc.bias", 0.0)
        self.states = joined.roll(shift, 0)
        self.tokens = context[start + 1 :]

    def embed(self, tokens):
        own = self.head.state_dict().get("embed_tokens.weight")
        return self.target.embed(torch.tensor(tokens)).detach() if own is None else own[torch.tensor(tokens)]

    def logits(self, branch):
        """[n], of the head's ids, behind the context and these drafted tokens."""
        states = self.states
        for i in range(len(branch) + 1):
            out = plain_outputs(self.head, self.embed(self.tokens + branch[:i]), states, self.start)
            states = torch.cat([states, out[-1:]])
        last, w = out[-1], self.head.state_dict()
        if self.head.shape.form == "eagle3":
            last = plain_norm(last, w["norm.weight"], self.head.shape.rms_norm_eps)
        rows = w["lm_head.weight"] if "lm_head.weight" in w else self.target.head_rows(self.head.draft_to_target)
        return rows @ last

    def target_id(self, i):
        return i if self.head.draft_to_target is None else int(self.head.draft_to_target[i])

    def chain(self, k):
        """The greedy one."""
        branch = []
        for _ in range(k):
            branch.append(self.target_id(int(self.logits(branch).argmax())))
        return branch


class Steps:
    """A gate that lets `most` tokens pass, and remembers what it was asked."""

    asks = True

    def __init__(self, most):
        self.most, self.asked = most, []

    def goes_on(self, confidence, depth):
        self.asked.append((confidence, depth))
        return depth < self.most
