"""Every string that a user sees, in English and Turkish.

Gradio translates its own labels in the browser, but not table heads, plots or anything made on the server; those
take the language from the request. Both read the same files.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

import gradio as gr

LANGUAGES = ("en", "tr")
_FOLDER = Path(__file__).parent / "i18n"


@cache
def catalogues() -> dict[str, dict[str, str]]:
    return {language: _read(language) for language in LANGUAGES}


@cache
def explorer() -> dict[str, dict[str, str]]:
    """Those of the Explore tab alone: each of its views takes them along, so they are no more than it can ask for."""
    return {language: _file(f"{language}.json") for language in LANGUAGES}


def _file(name: str) -> dict[str, str]:
    strings: dict[str, str] = json.loads((_FOLDER / name).read_text("utf-8"))
    return strings


def _read(language: str) -> dict[str, str]:
    """The explorer's strings, the finance tabs', of their form and of their figures, and those of claims. No key is in
    two files."""
    read: dict[str, str] = {}
    for name in (f"{language}.json", f"scenario_{language}.json", f"costs_{language}.json", f"claims_{language}.json"):
        more = _file(name)
        assert not read.keys() & more.keys(), f"{name} has keys that are taken: {sorted(read.keys() & more.keys())}"
        read |= more
    return read


@cache
def gradio_i18n() -> gr.I18n:
    """For `label=`, `info=` and button texts: the browser picks the language."""
    return gr.I18n(**catalogues())


def t(key: str) -> Any:
    """A label that the browser translates. Raises KeyError for a key that no catalogue has."""
    assert key in catalogues()["en"], f"no string named {key!r} in app/i18n/en.json"
    return gradio_i18n()(key)


class Words:
    """One language's strings on the server. `words("key", name=value)` fills the placeholders."""

    def __init__(self, language: str):
        self.language = language
        self._strings = catalogues()[language]

    def __call__(self, key: str, **values: object) -> str:
        text = self._strings[key]
        for name, value in values.items():  # not str.format: a value may hold braces of its own
            text = text.replace("{" + name + "}", str(value))
        return text

    def has(self, key: str) -> bool:
        return key in self._strings

    def name(self, kind: str, name: str) -> str:
        """What people call an engine's name ("drafter", "prompt_lookup"); the name itself where no catalogue has it."""
        return self._strings.get(f"{kind}_{name}", name)


def words_for(request: gr.Request | None) -> Words:
    """The first language of Accept-Language that we speak; English when there is none."""
    header = (request.headers.get("accept-language") or "") if request is not None else ""
    first = header.split(",")[0].strip().lower()
    return Words("tr" if first.startswith("tr") else "en")
