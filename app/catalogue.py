"""Every string that a user sees, in English and Turkish.

Gradio translates its own labels in the browser, but not table heads, plots or anything made on the server; those
take the language from the request. Both read the same two files.
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
    return {language: json.loads((_FOLDER / f"{language}.json").read_text("utf-8")) for language in LANGUAGES}


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

    def name(self, kind: str, name: str) -> str:
        """What people call an engine's name ("drafter", "prompt_lookup"); the name itself where no catalogue has it."""
        return self._strings.get(f"{kind}_{name}", name)


def words_for(request: gr.Request | None) -> Words:
    """The first language of Accept-Language that we speak; English when there is none."""
    header = (request.headers.get("accept-language") or "") if request is not None else ""
    first = header.split(",")[0].strip().lower()
    return Words("tr" if first.startswith("tr") else "en")
