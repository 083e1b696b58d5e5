"""Models small enough for a test: random ones that transformers runs, and one whose logits the test writes."""

from types import SimpleNamespace

import torch
import transformers as tf

from engine import Pair

LOUD = 30.0  # a logit that wins by so much that softmax gives it everything (to 1e-12)


def tiny_llama(vocab=64, seed=0, context=256, layers=2, **extra):
    """A random two-layer llama whose greedy output wanders: large weights, so no near ties."""
    config = tf.LlamaConfig(
        vocab_size=vocab, hidden_size=32, intermediate_size=64, num_hidden_layers=layers, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=context, initializer_range=0.3, tie_word_embeddings=False,
        **{"bos_token_id": None, "eos_token_id": None, "pad_token_id": None, **extra},
    )  # fmt: skip
    torch.manual_seed(seed)
    return tf.LlamaForCausalLM(config).eval()


def tiny_gpt2(vocab=64, seed=0, context=256, **extra):
    config = tf.GPT2Config(
        vocab_size=vocab, n_embd=32, n_layer=2, n_head=4, n_positions=context, initializer_range=0.3,
        **{"bos_token_id": None, "eos_token_id": None, **extra},
    )  # fmt: skip
    torch.manual_seed(seed)
    return tf.GPT2LMHeadModel(config).eval()


class ScriptedModel(torch.nn.Module):
    """A causal LM whose logits are `rule(all tokens so far) -> [vocab]`.

    It keeps the tokens as the keys of the engine's own cache and reads them back from there, so a wrong rollback or a
    token fed twice gives wrong text here as it would in a real model. width: rows of the embedding and of the
    logits, where they are padded past the vocabulary. `widths` records how many tokens each forward read, `longest`
    the most positions that any of them used; `before_forward` is called at the start of each.
    """

    def __init__(self, rule, vocab, context=4096, eos=None, width=None, generation_eos=None):
        super().__init__()
        self.rule, self.vocab = rule, vocab
        width = width or vocab
        self.config = tf.LlamaConfig(
            vocab_size=width, hidden_size=4, num_attention_heads=1, num_hidden_layers=1, intermediate_size=4,
            max_position_embeddings=context, eos_token_id=eos, bos_token_id=None, pad_token_id=None,
        )  # fmt: skip
        self.generation_config = SimpleNamespace(eos_token_id=generation_eos, repetition_penalty=None)
        self.embedding = torch.nn.Embedding(width, 4)
        self.head = torch.nn.Linear(4, width, bias=False)
        self.widths, self.longest = [], 0
        self.before_forward = None

    def get_input_embeddings(self):
        return self.embedding

    def get_output_embeddings(self):
        return self.head

    def forward(self, input_ids, past_key_values=None, use_cache=True, logits_to_keep=0):
        if self.before_forward:
            self.before_forward()
        assert int(input_ids.max()) < self.embedding.num_embeddings, "an id without an embedding was fed"
        self.widths.append(input_ids.shape[1])
        keys = input_ids[:, None, :, None].float()
        seen, _ = past_key_values.update(keys, keys, 0)
        history = [int(t) for t in seen[0, 0, :, 0]]
        self.longest = max(self.longest, len(history))
        assert self.longest <= self.config.max_position_embeddings, "read past the context"
        keep = logits_to_keep or input_ids.shape[1]
        rows = [
            torch.as_tensor(self.rule(tuple(history[: end + 1])), dtype=torch.float32)
            for end in range(len(history) - keep, len(history))
        ]
        return SimpleNamespace(logits=torch.stack(rows)[None])


class TreeModel(ScriptedModel):
    """A ScriptedModel that reads trees: what a token sees is told by the mask and ordered by the positions, which stand
    in its cache beside the tokens. Wrong parents, a wrong mask or a branch kept wrongly leave a text with a hole in it,
    and are refused. early: the rule of its first layer alone."""

    def __init__(self, rule, vocab, early=None, **extra):
        super().__init__(rule, vocab, **extra)
        self.config.num_hidden_layers = 2
        self.early = None if early is None else TreeModel(early, vocab, **extra)

    def forward(
        self, input_ids, attention_mask=None, position_ids=None, past_key_values=None, use_cache=True, logits_to_keep=0
    ):
        if self.before_forward:
            self.before_forward()
        self.widths.append(input_ids.shape[1])
        width, start = input_ids.shape[1], past_key_values.length
        at = torch.arange(start, start + width)[None] if position_ids is None else position_ids
        assert int(at.max()) < self.config.max_position_embeddings, "read past the context"
        for layer in range(len(past_key_values.layers)):
            tokens, places = past_key_values.update(
                input_ids[:, None, :, None].float(), at[:, None, :, None].float(), layer
            )
        seen = torch.ones(width, start + width, dtype=torch.bool).tril_(start)
        if attention_mask is not None:
            assert attention_mask.shape == (1, 1, width, start + width), "not a tree's mask"
            seen = attention_mask[0, 0] == 0
        tokens, places = tokens[0, 0, :, 0].long().tolist(), places[0, 0, :, 0].long().tolist()
        rows = []
        for row in seen[-(logits_to_keep or width) :].tolist():
            line = sorted((place, token) for place, token, shown in zip(places, tokens, row, strict=True) if shown)
            assert [place for place, _ in line] == [*range(len(line))], "a text with a hole in it"
            rows.append(torch.as_tensor(self.rule(tuple(token for _, token in line)), dtype=torch.float32))
        return SimpleNamespace(logits=torch.stack(rows)[None])


def tree_pair(rule, vocab=16, draft=None, tokenizer=None, draft_context=4096, **extra):
    """A Pair whose target reads trees and whose draft, and whose first layer, say `draft` (the rule itself where it is
    None)."""
    draft = draft or rule
    target = TreeModel(rule, vocab, draft, **extra)
    pair = Pair.from_models(target=target, tokenizer=tokenizer, draft=ScriptedModel(draft, vocab, draft_context))
    assert pair.target.reads_trees
    pair.target._shallows[1] = target.early
    for model in (target, pair.draft.model):
        model.widths, model.longest = [], 0
    return pair


def one(token, width, loud=LOUD):
    """Logits that say `token`."""
    row = torch.zeros(width)
    row[token] = loud
    return row


def recites(script, start, width, then=0):
    """A rule that says script[0], script[1], ... behind a prompt of `start` tokens, whatever was said before."""

    def rule(history):
        at = len(history) - start
        return one(script[at] if 0 <= at < len(script) else then, width)

    return rule


def wanders(width, seed=0, share=1.0, other=1):
    """A rule whose favourite is a hash of ALL tokens so far, so that any wrong token in the cache shows at once.
    share < 1: on the rest of the histories the favourite comes from another hash (a draft that is sometimes wrong)."""

    def favourite(history, salt):
        h = salt * 7919 + 17
        for t in history:
            h = (h * 1_000_003 + t + 1) % 2_147_483_647
        return h

    def rule(history):
        h = favourite(history, seed)
        if (favourite(history, 99) % 1000) / 1000 >= share:
            h = favourite(history, seed + other)
        return one(h % width, width)

    return rule


def table(laws, width):
    """A rule from a function history -> probabilities [width]; zero probability is a logit of -inf."""

    def rule(history):
        return torch.as_tensor(laws(history), dtype=torch.float64).log().float()

    return rule


def pair_of(rule, vocab=16, draft=None, tokenizer=None, draft_context=4096, **extra):
    """A Pair of scripted models. rule, draft: rules over histories."""
    target = ScriptedModel(rule, vocab, **extra)
    other = None if draft is None else ScriptedModel(draft, vocab, context=draft_context)
    pair = Pair.from_models(target=target, tokenizer=tokenizer, draft=other)
    for model in (target, other):
        if model is not None:  # what the pair's own check has read is no run's
            model.widths, model.longest = [], 0
    return pair


def greedy_continuation(rule, history, count):
    """What a rule says by itself, token by token, without any cache: the reference."""
    out = list(history)
    for _ in range(count):
        out.append(int(torch.as_tensor(rule(tuple(out))).argmax()))
    return out[len(history) :]
