"""Between text and tokens: the prompt as it is sent, how a token reads by itself, text that grows, stop strings."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from jinja2.exceptions import TemplateSyntaxError, UndefinedError

from engine.errors import EngineError
from engine.notice import Notice
from engine.trace import TokenText

Prompt = str | Sequence[Mapping[str, str]] | Sequence[int]
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
OBEYED = Notice("the prompt holds control tokens of the model, which it will obey", "control_tokens_obeyed")
AS_TEXT = Notice("the prompt holds control tokens of the model; they are sent as plain text", "control_tokens_as_text")


@dataclass(frozen=True, slots=True)
class Encoded:
    """A prompt ready to decode. text: the rendered prompt, special tokens visible. notices: what was done to it."""

    ids: tuple[int, ...]
    text: str
    notices: tuple[str, ...] = ()


def encode_prompt(tokenizer: Any, prompt: Prompt, model_name: str, chat: bool = True, id_limit: int = 2**31) -> Encoded:
    """str: one user turn, or raw text with chat=False or when the tokenizer has no chat template. A list of
    {"role", "content"}: a conversation. A list of ints: token ids below `id_limit`, taken as they are.
    Raises EngineError for anything else, and when the template refuses the roles."""
    if isinstance(prompt, str):
        if chat and tokenizer is not None and getattr(tokenizer, "chat_template", None):
            return _encode_chat(tokenizer, [{"role": "user", "content": prompt}], model_name)
        text = f"{model_name} has no chat template: the prompt is sent as plain text"
        note = Notice(text, "no_chat_template", name=model_name)
        return _encode_raw(tokenizer, prompt, (note,) if chat else ())
    if hasattr(prompt, "tolist"):
        prompt = prompt.tolist()
    # Bytes would pass for ids, and a set for a sequence.
    usable = isinstance(prompt, Iterable) and not isinstance(prompt, bytes | bytearray | set | frozenset | Mapping)
    items: list[Any] = list(prompt) if usable else [None]
    if items and all(isinstance(m, Mapping) for m in items):
        if not all(isinstance(m.get(key), str) for m in items for key in ("role", "content")):
            raise EngineError('each message needs a "role" and a "content", both text')
        if tokenizer is None or not getattr(tokenizer, "chat_template", None):
            raise EngineError(f"{model_name} has no chat template; pass the prompt as text or as token ids")
        return _encode_chat(tokenizer, [dict(m) for m in items], model_name)
    if all(isinstance(i, Integral) and not isinstance(i, bool) for i in items):
        ids = [int(i) for i in items]
        bad = next((i for i in ids if not 0 <= i < id_limit), None)
        if bad is not None:
            raise EngineError(
                f"token id {bad} is outside the vocabulary of {model_name}: ids run from 0 to {id_limit - 1}"
            )
        return Encoded(tuple(ids), tokenizer.decode(ids) if tokenizer is not None and ids else "")
    raise EngineError('a prompt is a text, a list of {"role", "content"} messages, or a list of token ids')


def _encode_raw(tokenizer: Any, text: str, notices: tuple[str, ...]) -> Encoded:
    if tokenizer is None:
        raise EngineError("this pair has no tokenizer; pass the prompt as a list of token ids")
    _check_text(text)
    ids = list(tokenizer(text)["input_ids"])
    bos = tokenizer.bos_token_id
    if bos is not None and ids[:2] == [bos, bos]:  # the text already held the one that the tokenizer adds
        ids = ids[1:]
    if any(t in text for t in control_tokens(tokenizer)):
        notices = (*notices, OBEYED)
    return Encoded(tuple(ids), tokenizer.decode(ids) if ids else "", notices)


def _encode_chat(tokenizer: Any, messages: list[dict[str, str]], model_name: str) -> Encoded:
    controls = control_tokens(tokenizer)
    for m in messages:
        _check_text(m["content"])
        _check_text(m["role"])
        if any(t in m["role"] for t in controls):
            raise EngineError(f"the role {m['role']!r} holds a control token; use user, assistant or system")
    text = _render(tokenizer, messages, model_name)
    lost = next((m["role"] for m in messages if m["content"].strip() not in text), None)
    if lost is not None:
        said = f"the chat template of {model_name} does not send the {lost} text as it was written"
        notes: tuple[str, ...] = (Notice(said, "template_changes_text", name=model_name, role=lost),)
        if any(t in m["content"] for m in messages for t in controls):
            notes = (*notes, OBEYED)
        return Encoded(tuple(tokenizer(text, add_special_tokens=False)["input_ids"]), text, notes)
    if not any(t in m["content"] for m in messages for t in controls):
        return Encoded(tuple(tokenizer(text, add_special_tokens=False)["input_ids"]), text)
    # A control token in what a user wrote is text. Render with marks in place of the contents, then encode the
    # template's own parts with control tokens and the contents without.
    marks = [f"\N{WHITE SMALL SQUARE}{i:04d}\N{WHITE SMALL SQUARE}" for i in range(len(messages))]
    shell = _render(tokenizer, [{**m, "content": k} for m, k in zip(messages, marks, strict=True)], model_name)
    ids: list[int] = []
    for mark, message in zip(marks, messages, strict=True):
        if shell.count(mark) != 1:
            return Encoded(tuple(tokenizer(text, add_special_tokens=False)["input_ids"]), text, (OBEYED,))
        before, shell = shell.split(mark)
        ids += tokenizer(before, add_special_tokens=False)["input_ids"]
        ids += _plain_ids(tokenizer, message["content"], controls)
    ids += tokenizer(shell, add_special_tokens=False)["input_ids"]
    return Encoded(tuple(ids), text, (AS_TEXT,))


def control_tokens(tokenizer: Any) -> dict[str, int]:
    """Every token that the tokenizer treats as a command, text -> id: those with a role (bos, eos, ...) and those that
    are only marked special, as Llama 3's turn tokens are."""
    named = zip(tokenizer.all_special_tokens, tokenizer.all_special_ids, strict=True)
    marked = ((str(t), i) for i, t in getattr(tokenizer, "added_tokens_decoder", {}).items() if t.special)
    return {text: i for text, i in (*named, *marked) if text}


def _plain_ids(tokenizer: Any, text: str, controls: Iterable[str]) -> list[int]:
    """Ids of `text` with control tokens read as the characters that they are written with."""
    ids: list[int] = []
    either = "|".join(re.escape(t) for t in sorted(controls, key=len, reverse=True))
    for piece in re.split(f"({either})", text):
        # A control token is only recognised whole: its two halves are text.
        for half in (piece[:1], piece[1:]) if piece in controls else (piece,):
            if half:
                ids += tokenizer(half, add_special_tokens=False)["input_ids"]
    return ids


def _render(tokenizer: Any, messages: list[dict[str, str]], model_name: str) -> str:
    try:
        return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
    except (TemplateSyntaxError, UndefinedError, ArithmeticError, TypeError) as error:
        raise EngineError(
            f"the chat template of {model_name} is faulty ({error}); pass the prompt as text with chat=False, or as "
            "token ids"
        ) from error
    except Exception as error:  # a template that refuses raises whatever its author chose
        roles = ", ".join(m["role"] for m in messages)
        raise EngineError(
            f"the chat template of {model_name} refuses these roles ({roles}): {error}; "
            "put a system text into the first user turn and alternate user and assistant"
        ) from error


def _check_text(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise EngineError("the prompt holds half a surrogate pair, which is no text; paste it again") from None


class TokenReader:
    """How each token reads by itself: its text, or its bytes when it is only a part of a character."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.specials = {*control_tokens(tokenizer).values()} if tokenizer is not None else set()
        self._byte_of = _byte_alphabet() if tokenizer is not None and _is_byte_level(tokenizer) else None
        self._known: dict[int, TokenText] = {}

    def __call__(self, token_id: int) -> TokenText:
        found = self._known.get(token_id)
        if found is None:
            found = self._known[token_id] = self._read(token_id)
        return found

    def _read(self, token_id: int) -> TokenText:
        if self.tokenizer is None:
            return TokenText(token_id, f"[{token_id}]")
        piece = self.tokenizer.convert_ids_to_tokens(token_id)
        if piece is None:
            return TokenText(token_id, f"[{token_id}]")
        if token_id in self.specials:
            return TokenText(token_id, str(piece), special=True)
        raw = self._bytes(str(piece))
        if raw is None:
            return TokenText(token_id, self.tokenizer.decode([token_id], skip_special_tokens=False))
        try:
            return TokenText(token_id, raw.decode("utf-8"))
        except UnicodeDecodeError:
            return TokenText(token_id, "", bytes=raw.hex(" ").upper())

    def _bytes(self, piece: str) -> bytes | None:
        """The bytes that a vocabulary entry stands for, None when only the tokenizer's decoder knows."""
        if self._byte_of is not None:
            # An added token is stored as plain text, outside the byte alphabet.
            return bytes(self._byte_of[c] for c in piece) if all(c in self._byte_of for c in piece) else piece.encode()
        if re.fullmatch("<0x[0-9A-F]{2}>", piece):
            return bytes([int(piece[3:5], 16)])
        if "\N{LOWER ONE EIGHTH BLOCK}" in piece:  # SentencePiece's space
            return piece.replace("\N{LOWER ONE EIGHTH BLOCK}", " ").encode()
        return None


def _is_byte_level(tokenizer: Any) -> bool:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return False
    return "ByteLevel" in json.dumps(json.loads(backend.to_str()).get("decoder") or {})


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-ins for the 256 bytes, read backwards."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return {**{chr(b): b for b in plain}, **{chr(256 + i): b for i, b in enumerate(others)}}


class Detokenizer:
    """Text that grows with its tokens: `add` returns what a token made readable, and all returns joined are the
    decoded whole. A part of a character stays silent until the token that completes it. Special tokens are silent."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.ids: list[int] = []
        # ids[:_told] has been told; ids[_from:_told] is decoded along, because how a token reads (a leading space, a
        # byte) depends on the ones before it.
        self._from = self._told = 0

    def add(self, token_id: int) -> str:
        if self.tokenizer is None:
            return ""
        self.ids.append(token_id)
        before, now = self._decode(self._told), self._decode(len(self.ids))
        if len(now) <= len(before) or now.endswith(REPLACEMENT):
            return ""
        self._from, self._told = self._told, len(self.ids)
        return now[len(before) :]

    def flush(self) -> str:
        """What is left when no more tokens come, incomplete characters and all."""
        if self.tokenizer is None:
            return ""
        before, now = self._decode(self._told), self._decode(len(self.ids))
        self._from = self._told = len(self.ids)
        return now[len(before) :]

    def _decode(self, end: int) -> str:
        return str(
            self.tokenizer.decode(
                self.ids[self._from : end], skip_special_tokens=True, clean_up_tokenization_spaces=False
            )
        )


class StopScanner:
    """Finds the first stop string in text that arrives in pieces, and holds back what might become one."""

    def __init__(self, stop: Sequence[str]) -> None:
        self.stop = tuple(stop)
        self.held = ""

    def add(self, piece: str) -> tuple[str, bool]:
        """Returns the text that is safe to show now, and whether a stop string has been completed (it and all
        behind it are dropped)."""
        if not self.stop:
            return piece, False
        text = self.held + piece
        found = [at for s in self.stop if (at := text.find(s)) >= 0]
        if found:
            self.held = ""
            return text[: min(found)], True
        keep = max(
            (n for s in self.stop for n in range(1, min(len(s), len(text) + 1)) if text.endswith(s[:n])),
            default=0,
        )
        self.held = text[len(text) - keep :]
        return text[: len(text) - keep], False

    def flush(self) -> str:
        text, self.held = self.held, ""
        return text
