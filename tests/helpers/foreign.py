"""Pairs of two model families: tokenizers that cut the same text differently, and models that agree on the text."""

import threading

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from engine import DecodeSettings, verify_chain
from engine.drafters.base import Outcome
from engine.drafters.foreign import foreign_drafter
from engine.token_bytes import token_bytes
from engine.verify.sampling import draw, probabilities
from helpers.models import one
from helpers.tokenizers import byte_alphabet


def merged_tokenizer(words, base=0, **named):
    """Byte-level BPE that cuts `words` (each a str) as one token, and everything else into bytes. Ids: the 256 bytes
    from `base` on, what the merges pass through, in order, then <s> and </s>."""
    letters = byte_alphabet()
    vocab = {letters[b]: (b + base) % 256 for b in range(256)}
    merges = []
    for word in words:
        piece = [letters[b] for b in word.encode()]
        head = piece[0]
        for letter in piece[1:]:
            if (head, letter) not in merges:
                merges.append((head, letter))
                vocab[head + letter] = len(vocab)
            head += letter
    tok = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tok.decoder = decoders.ByteLevel()
    return finish(tok, **named)


def wordpiece_tokenizer(pieces, **named):
    """BERT's: ids in order, [UNK] first; "##ing" goes on a word. Lower case and punctuation are as they are."""
    vocab = {p: i for i, p in enumerate(["[UNK]", *pieces])}
    tok = Tokenizer(models.WordPiece(vocab=vocab, unk_token="[UNK]"))
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tok.decoder = decoders.WordPiece(cleanup=False)
    return finish(tok, unk_token="[UNK]", **named)


def finish(tok, bos=False, specials=("<s>", "</s>"), **named):
    """specials: the first begins a text and the second ends it."""
    tok.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in specials])
    if bos:
        first = specials[0]
        tok.post_processor = processors.TemplateProcessing(
            single=f"{first} $A", special_tokens=[(first, tok.token_to_id(first))]
        )
    roles = {"bos_token": specials[0], "eos_token": specials[1]} if specials else {}
    return PreTrainedTokenizerFast(tokenizer_object=tok, clean_up_tokenization_spaces=False, **{**roles, **named})


def permuted(model, order):
    """The same model with token i under id order[i]: rows of its embedding and of its head change places."""
    with torch.no_grad():
        for rows in (model.get_input_embeddings().weight, model.get_output_embeddings().weight):
            moved = torch.empty_like(rows)
            moved[torch.tensor(order)] = rows
            rows.copy_(moved)
    return model


def recites_text(tokenizer, text, width, ends=False):
    """A rule that says `text` behind whatever part of it has been said, in its own tokenizer's tokens, the longest that
    fit. Where the history is no beginning of the text it says token 0. ends: an end-of-sequence token behind the text.
    """
    pieces = token_bytes(tokenizer)
    longest = sorted(pieces.items(), key=lambda entry: (-len(entry[1]), entry[0]))
    data = text.encode()

    def rule(history):
        said = b"".join(pieces.get(i, b"") for i in history)
        said = said.removeprefix(b"" if data.startswith(b" ") else b" ")  # SentencePiece's, before every text
        if not data.startswith(said):
            return one(0, width)
        rest = data[len(said) :]
        if not rest:
            return one(tokenizer.eos_token_id if ends else 0, width)
        return one(next(i for i, word in longest if rest.startswith(word)), width)

    return rule


def drafter_of(pair, settings=None, seed=0, gate=None):
    settings = settings or DecodeSettings()
    return foreign_drafter(
        pair.draft, pair.vocabulary, pair.tokenizer, pair.draft_tokenizer, settings,
        torch.Generator().manual_seed(seed), pair.target.vocab_size, gate,
    )  # fmt: skip


def plain(pair, prompt, settings, count, seed=0):
    """Token by token, with the target alone."""
    generator, cache, context = torch.Generator().manual_seed(seed), pair.target.new_cache(), list(prompt)
    for _ in range(count):
        logits = pair.target.forward(context[cache.length :], cache, keep=1)
        context.append(draw(probabilities(logits, settings, context)[0], generator))
    return context[len(prompt) :]


def speculative(pair, prompt, settings, count, seed=0, drafter=None):
    """(ids, [(draft, verdict)]) of at least `count` tokens: the engine's loop, without what it records."""
    generator, cache, context = torch.Generator().manual_seed(seed), pair.target.new_cache(), list(prompt)
    drafter = drafter or drafter_of(pair, settings, seed)
    drafter.generator = generator
    drafter.begin(prompt, threading.Event())
    context += plain(pair, prompt, settings, 1, seed)
    steps = []
    while len(context) < len(prompt) + count:
        draft = drafter.propose(context, settings.k)
        unread = [*context[cache.length :], *draft.tokens]
        logits = pair.target.forward(unread, cache, keep=len(draft.tokens) + 1)
        p = probabilities(logits, settings, context, draft.tokens)
        verdict = verify_chain(p, draft.tokens, draft.probs, generator=generator)
        steps.append((draft, verdict))
        length, accepted = len(context), verdict.num_accepted
        cache.rollback(length + accepted)
        context += [*draft.tokens[:accepted], verdict.next_token]
        drafter.observe(Outcome(length, tuple(range(accepted)), draft, verdict.next_token, logits))
    return context[len(prompt) : len(prompt) + count], steps
