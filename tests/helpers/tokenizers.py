"""Tokenizers of a few entries, one for each way in which real ones turn tokens into text."""

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

CHATML = (
    "{% for m in messages %}<s>{{ m['role'] }}: {{ m['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant: {% endif %}"
)
# Gemma's way: no system role, user and assistant in turn.
STRICT = (
    "<s>{% for m in messages %}"
    "{% if m['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant') }}{% endif %}"
    "[{{ m['role'] }}]{{ m['content'] }}{% endfor %}[assistant]"
)
SPECIALS = ("<s>", "</s>")


def byte_alphabet():
    """GPT-2's printable character for each byte, from its definition: printable bytes stand for themselves, the
    others take the next free code points from 256 on."""
    plain = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    out, free = {}, 256
    for b in range(256):
        if b in plain:
            out[b] = chr(b)
        else:
            out[b], free = chr(free), free + 1
    return out


def _finish(tok, template, specials=SPECIALS, bos=False, **named):
    tok.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in specials])
    if bos:
        at = tok.token_to_id("<s>")
        tok.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", at)])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tok,
        **{"bos_token": "<s>", "eos_token": "</s>", "clean_up_tokenization_spaces": False, **named},
    )
    if template:
        fast.chat_template = template
    return fast


def byte_tokenizer(extra=(), template=None, bos=False, specials=SPECIALS, **named):
    """Byte level: id b is the byte b; extra byte strings follow from 256 on, then the special tokens."""
    letters = byte_alphabet()
    vocab = {letters[b]: b for b in range(256)}
    for piece in extra:
        vocab["".join(letters[b] for b in piece)] = len(vocab)
    tok = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tok.decoder = decoders.ByteLevel()
    return _finish(tok, template, specials, bos, **named)


def word_tokenizer(words, template=None, bos=False, specials=SPECIALS, **named):
    """One id a word, ids in order; special tokens follow."""
    tok = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token=words[0]))
    tok.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return _finish(tok, template, specials, bos, **named)


def piece_tokenizer(pieces, template=None, bos=True, specials=SPECIALS, **named):
    """SentencePiece as Llama 2 has it: pieces with the low line for a space, 256 byte pieces, first space stripped.
    Ids: <unk>, the pieces in order, <0x00> to <0xFF>, the special tokens."""
    names = ["<unk>", *pieces, *(f"<0x{b:02X}>" for b in range(256))]
    scores = [(p, -float(i + 1)) for i, p in enumerate(names)]
    tok = Tokenizer(models.Unigram(scores, unk_id=0, byte_fallback=True))
    tok.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tok.pre_tokenizer = pre_tokenizers.Split(Regex("(?!)"), "isolated")
    tok.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return _finish(tok, template, specials, bos, **named)
