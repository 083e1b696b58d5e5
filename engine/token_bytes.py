"""What each token of a vocabulary stands for, in bytes: two vocabularies compare by what they say, not by how they
spell it ("Ġthe" of a byte-level BPE and "▁the" of a SentencePiece model are both b" the")."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from engine.text import _byte_alphabet, control_tokens

SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # SentencePiece's
LEADS = ((range(0xC2, 0xE0), 2), (range(0xE0, 0xF0), 3), (range(0xF0, 0xF5), 4))  # a UTF-8 character's first byte
BYTE_PIECE = re.compile("<0x[0-9A-Fa-f]{2}>")


def token_bytes(tokenizer: Any) -> dict[int, bytes]:
    """id -> bytes, for every token that stands for text. Special tokens do not, and are left out; so are pieces that
    stand for nothing. Byte pieces (<0x0A>) come last: where two tokens say the same, the first is the one that a
    tokenizer writes."""
    vocab: dict[Any, int] = tokenizer.get_vocab()
    added = {i: str(t) for i, t in getattr(tokenizer, "added_tokens_decoder", {}).items()}
    controls = {*control_tokens(tokenizer).values()}
    read = _reader(tokenizer, vocab)
    words: dict[int, bytes] = {}
    single: dict[int, bytes] = {}
    for piece, i in sorted(vocab.items(), key=lambda entry: entry[1]):
        if i in controls:
            continue
        if i in added:  # stored as plain text, outside every alphabet
            words[i] = added[i].encode("utf-8", "replace")
        elif isinstance(piece, bytes):
            words[i] = piece
        elif BYTE_PIECE.fullmatch(piece) and read(piece) == bytes([int(piece[3:5], 16)]):
            single[i] = read(piece)
        else:
            words[i] = read(piece)
    return {i: b for i, b in (*words.items(), *single.items()) if b}


def joined(pieces: Mapping[int, bytes], ids: Iterable[int]) -> bytes:
    """What the ids say together; special ones say nothing."""
    return b"".join(pieces.get(i, b"") for i in ids)


def encode(tokenizer: Any, text: str) -> list[int]:
    """Ids of a text by itself, without the special tokens that a tokenizer puts around one; [] when it cannot spell it
    (no unknown token and no bytes to fall back on)."""
    try:
        return [int(i) for i in tokenizer(text, add_special_tokens=False)["input_ids"]]
    except Exception:  # the tokenizers library raises bare Exceptions
        return []


def unfinished(data: bytes | bytearray) -> int:
    """How many bytes at the end begin a character (UTF-8) that is not complete: 0 to 3."""
    for n in range(1, min(3, len(data)) + 1):
        byte = data[-n]
        if byte & 0xC0 != 0x80:
            needed = next((size for first, size in LEADS if byte in first), 1)
            return n if n < needed else 0
    return 0


def is_text(data: bytes) -> bool:
    """Whole characters, and not a part of one."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _reader(tokenizer: Any, vocab: Mapping[Any, int]) -> Callable[[str], bytes]:
    """How this tokenizer's decoder reads a piece in the middle of a text."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    decoder = getattr(backend, "decoder", None)
    steps = {s["type"]: s for s in _steps(json.loads(decoder.__getstate__()))} if decoder is not None else {}
    if "ByteLevel" in steps:
        byte_of = _byte_alphabet()
        return lambda piece: (
            bytes(byte_of[c] for c in piece) if all(c in byte_of for c in piece) else piece.encode("utf-8", "replace")
        )
    if "WordPiece" in steps:
        prefix = str(steps["WordPiece"]["prefix"])
        return lambda piece: (
            piece.removeprefix(prefix) if piece.startswith(prefix) and prefix else f" {piece}"
        ).encode()
    if "BPEDecoder" in steps:
        suffix = str(steps["BPEDecoder"]["suffix"])
        return lambda piece: (f"{piece.removesuffix(suffix)} " if piece.endswith(suffix) else piece).encode()
    if backend is not None and decoder is None and not any(SPACE in str(p) for p in vocab):
        return lambda piece: f" {piece}".encode()  # without a decoder, pieces are joined with spaces
    return _piece


def _piece(piece: str) -> bytes:
    if BYTE_PIECE.fullmatch(piece):
        return bytes([int(piece[3:5], 16)])
    return piece.replace(SPACE, " ").encode("utf-8", "replace")


def _steps(decoder: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    if decoder["type"] != "Sequence":
        yield decoder
    for inner in decoder.get("decoders", ()):
        yield from _steps(inner)
