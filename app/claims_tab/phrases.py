"""What `pricing.claims` says in English, in the reader's language and notation.

The sentences there are made of fixed words around numbers and names. A catalogue has each of them as pricing writes
it, with {names} for what differs, and what it is in the other language. What none of them fits stays as it is.
"""

import json
import re
from functools import cache, lru_cache
from pathlib import Path

from app.catalogue import Words
from pricing.figure import Label

_FOLDER = Path(__file__).parents[1] / "i18n"
# A number in English notation that stands alone: no part of a name (Llama-3.1, Llama 3.1), a version or a date.
_NUMBER = re.compile(r"(?<![\w.])(?<![A-Za-z]-)(?<!Llama )(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?!\.?\d|-?[A-Z]|-\d)")
_PERCENT = re.compile(r"([+\-−]?)(\d[\d.,]*)%")
_HOLE = re.compile(r"\{(\w+)\}")
_SWAP = str.maketrans(",.", ".,")
_SIGNS = ((" x ", " × "), (" - ", " − "))
# As they stand in formulas, behind a number.
_UNITS = ("tokens/s", "tokens", "requests", "samples/s", "turns", "weeks", "USD/h", "GPUs", "GB")
LABELS: dict[Label, str] = {
    "measured": "label_measured",
    "quoted": "label_quoted",
    "projected": "label_projected",
    "assumed": "label_assumed",
}


@cache
def catalogue(language: str) -> dict[str, str]:
    """pricing's words -> the language's; empty for English, which they are."""
    file = _FOLDER / f"claim_phrases_{language}.json"
    read: dict[str, str] = json.loads(file.read_text("utf-8")) if file.exists() else {}
    return read


def tell(text: str, words: Words) -> str:
    """A sentence, name or unit of pricing's for the reader."""
    return text if words.language == "en" else _tell(text, words.language)


def formula(text: str, words: Words) -> str:
    """A formula with signs in place of a computer's, units and numbers as the reader writes them."""
    if words.language != "en":
        text = _tell(text, words.language)
    for plain, sign in _SIGNS:
        text = text.replace(plain, sign)
    return text


def known(text: str, language: str) -> bool:
    """Whether the catalogue has words for it, so that a test can ask for what it lacks."""
    bare = re.sub("|".join(map(re.escape, _UNITS)), "", text)
    return not re.search("[a-z]{2}", bare) or _known(text, language) is not None


@lru_cache(maxsize=4096)
def _tell(text: str, language: str) -> str:
    found = _known(text, language)
    return _figures(_units(text, language), language) if found is None else found


def _known(text: str, language: str) -> str | None:
    """A phrase; sentences or names in a row, all of them known; a name and, behind commas, at which places."""
    held = catalogue(language)
    if text in held:
        return held[text]
    told = _row(text, "; ", language)
    if told is not None:
        return told
    for pattern, other in _shapes(language):
        if found := pattern.fullmatch(text):
            return _filled(other, found.groupdict(), language)
    told = _row(text, " and ", language)
    return told if told is not None else _at_places(text, language)


def _row(text: str, mark: str, language: str) -> str | None:
    parts = text.split(mark)
    if len(parts) == 1:
        return None
    told = [_known(part, language) for part in parts]
    word = mark.strip()
    return mark.replace(word, catalogue(language).get(word, word)).join(t for t in told if t) if all(told) else None


def _at_places(text: str, language: str) -> str | None:
    """The longest head that is known, then each place for itself: names of models and tasks are no words of ours."""
    parts = text.split(", ")
    for i in range(len(parts) - 1, 0, -1):
        head = _known(", ".join(parts[:i]), language)
        if head is not None:
            return ", ".join((head, *(_tell(part, language) for part in parts[i:])))
    if any(_known(part, language) is not None for part in parts[1:]):
        return ", ".join(_tell(part, language) for part in parts)
    return None


def _filled(other: str, groups: dict[str, str], language: str) -> str:
    told = {name: _tell(text, language) for name, text in groups.items()}
    return _HOLE.sub(lambda hole: told.get(hole[1], hole[0]), other)


@cache
def _shapes(language: str) -> list[tuple[re.Pattern[str], str]]:
    """Phrases with holes, those with the most words of their own first: they say the most."""
    shapes = [phrase for phrase in catalogue(language) if _HOLE.search(phrase)]
    shapes.sort(key=lambda phrase: -len(_HOLE.sub("", phrase)))
    return [(_pattern(phrase), catalogue(language)[phrase]) for phrase in shapes]


def _pattern(phrase: str) -> re.Pattern[str]:
    """Each hole once; a name in it may hold anything but a line's end."""
    parts = _HOLE.split(phrase)
    return re.compile("".join(re.escape(p) if i % 2 == 0 else f"(?P<{p}>.+?)" for i, p in enumerate(parts)))


def _units(text: str, language: str) -> str:
    held = catalogue(language)
    for unit in _UNITS:
        text = re.sub(rf"(?<![\w/]){re.escape(unit)}(?![\w/])", held.get(unit, unit), text)
    return text


def _figures(text: str, language: str) -> str:
    """Numbers with the language's marks, and its place for a per cent sign."""
    if language != "tr":
        return text
    text = _NUMBER.sub(lambda number: number[0].translate(_SWAP), text)
    return _PERCENT.sub(lambda found: f"{found[1]}%{found[2]}", text)
