"""What the sheet of a published claim and that of a person's own have in common, as blocks of sheet.js and
claims_sheet.js."""

import re
from collections.abc import Sequence
from typing import Any

from app.catalogue import Words
from app.claims_tab.phrases import LABELS, formula, tell
from app.finance import shown
from pricing.claims import MEANING, Bound, Finding, Given, Step, Verdict
from pricing.claims.derivation import WORKED_OUT

Block = dict[str, Any]
VERDICTS: dict[Verdict, str] = {
    "contradicted": "claim_contradicted",
    "implausible": "claim_implausible",
    "outdated": "claim_outdated",
    "unverifiable": "claim_unverifiable",
    "plausible": "claim_plausible",
    "supported": "claim_supported",
    "published": "claim_published",
    "published-consistent": "claim_published_consistent",
    "published-inconsistent": "claim_published_inconsistent",
}
_URL = re.compile(r"https?://[^\s;,()<>\"']+")
# Tables that are longer are folded: what follows from them is what is read.
_LONG = 8


def title(text: str, lang: str = "") -> Block:
    return {"type": "title", "text": text, "lang": lang}


def text(told: str, tone: str = "", lang: str = "") -> Block:
    return {"type": "text", "text": told, "tone": tone, "lang": lang}


def heading(told: str) -> Block:
    return {"type": "heading", "text": told}


def verdict(found: Verdict, words: Words) -> Block:
    return {
        "type": "verdict",
        "kind": found,
        "text": words(VERDICTS[found]),
        "told": tell(MEANING[found], words),
    }


def reason(why: str, decided_by: str | None, words: Words) -> Block:
    """Why, and who says so. What sources say is told in the words that the table has for it."""
    by = words("claim_decided", voice=tell(decided_by, words)) if decided_by else words("claim_undecided")
    of_sources = decided_by == "sources"
    return {
        "type": "text",
        "text": why if of_sources else sentence(why, words),
        "tone": "lead",
        "lang": "en" if of_sources else "",
        "by": by,
    }


def sentence(told: str, words: Words) -> str:
    told = tell(told, words)
    first = told[:1]
    capital = {"i": "İ", "ı": "I"}.get(first) if words.language == "tr" else None
    # A name that begins with a small letter ("vLLM") is left alone.
    return told if len(told) > 1 and told[1:2].isupper() else (capital or first.upper()) + told[1:]


def value(number: float | None, unit: str, words: Words, exact: bool = False) -> str:
    """A figure with its unit as the reader writes them; `exact`: all digits that it was given with."""
    if number is None:
        return shown.NOTHING
    if unit == "%":
        return percent(number, words)
    digits = shown.exact(number, words) if exact else shown.number(number, words)
    return f"{digits}x" if unit == "x" else f"{digits} {tell(unit, words)}".strip()


def percent(number: float, words: Words) -> str:
    digits = shown.number(number, words)
    return f"%{digits}" if words.language == "tr" else f"{digits}%"


def badge(label: str, words: Words) -> dict[str, str]:
    return {"kind": label, "text": words(LABELS[label])}  # type: ignore[index]


def inputs(given: Sequence[Given], words: Words, sources: dict[str, Block] | None = None) -> list[Block]:
    """What went in. sources: in place of a number's own, by its name."""
    if not given:
        return []
    rows = []
    for one in given:
        exact = not (one.label == "projected" or one.source == WORKED_OUT)
        name = f"{one.name}, {one.at}" if one.at else one.name
        told = {"t": value(one.value, one.unit, words, exact), "badge": badge(one.label, words)}
        source = {"t": one.source, "lang": "en", "tone": "quiet"}
        if one.source == "as entered":
            source = {"t": tell(one.source, words), "tone": "quiet"}
        instead = (sources or {}).get(one.name)
        if instead is not None:
            told["badge"], source = badge("quoted", words), instead
        rows.append({"cells": [tell(name, words), told, source]})
    columns = [{"text": words("claim_input"), "text_left": True}, {"text": words("claim_value")},
               {"text": words("claim_source"), "text_left": True}]  # fmt: skip
    name = words("claim_inputs")
    listed = {"type": "table", "name": name, "columns": columns, "rows": rows, "dense": True, "lines": True}
    if len(rows) <= _LONG:
        return [heading(name), listed]
    return [
        {
            "type": "fold",
            "name": "inputs",
            "title": words("claim_inputs_listed", n=len(rows)),
            "blocks": [listed],
        }
    ]


def steps(found: Sequence[Step], words: Words) -> list[Block]:
    """What follows: each figure, how it was come by, and the loosest label of what it rests on."""
    if not found:
        return []
    rows = [
        {
            "cells": [
                {"t": tell(step.name, words), "sub": formula(step.formula, words)},
                {"t": value(step.value, step.unit, words), "badge": badge(step.label, words)},
            ]
        }
        for step in found
    ]
    columns = [{"text": words("claim_step"), "text_left": True}, {"text": words("claim_value")}]
    name = words("claim_implies")
    return [
        heading(name),
        {"type": "table", "name": name, "columns": columns, "rows": rows, "dense": True, "steps": True},
        text(words("claim_labels_told"), "small"),
    ]


def findings(found: Sequence[Finding], words: Words) -> list[Block]:
    """What arithmetic, roofline and sources each say."""
    rows = []
    for one in found:
        of_sources = one.voice == "sources"
        why = {"t": one.why, "lang": "en"} if of_sources else {"t": sentence(one.why, words)}
        says = {"t": tell(one.says, words), "tone": TONES.get(one.says, "quiet")}
        rows.append({"cells": [tell(one.voice, words), says, why]})
    columns = [{"text": words(key), "text_left": True} for key in ("claim_voice", "claim_says", "claim_why")]
    name = words("claim_voices")
    return [
        heading(name),
        {"type": "table", "name": name, "columns": columns, "rows": rows, "dense": True, "lines": True},
    ]


TONES = {"against": "loss", "strains": "loss", "superseded": "loss", "supports": "gain", "agrees": "gain"}


def roofline(bounds: Sequence[Bound], words: Words) -> list[Block]:
    """The machine's bounds, one a batch, with their derivations; the machine once."""
    if not bounds:
        return []
    lines: list[Block] = []
    sources: dict[str, None] = {}
    for machine in dict.fromkeys(bound.machine for bound in bounds):
        of_machine = [bound for bound in bounds if bound.machine == machine]
        first = of_machine[0]
        gb = {"weights": shown.number(first.weights_gb, words, 3), "memory": shown.number(first.memory_gb, words)}
        fits = words("claim_fits" if first.fits else "claim_fits_not", machine=formula(machine, words), **gb)
        lines.append({"t": fits})
        for bound in of_machine:
            batch = words("claim_any_batch") if bound.batch is None else words("claim_batch", n=bound.batch)
            plain = value(bound.plain_tokens_per_second, "tokens/s", words)
            lines.append({"t": words("claim_plain", batch=batch, speed=plain), "sub": formula(bound.how[0], words)})
        most, read = (value(x, "tokens/s", words) for x in (first.compute_tokens_per_second,
                                                             first.prefill_tokens_per_second))  # fmt: skip
        lines.append({"t": words("claim_multiplied", most=most, read=read), "sub": formula(first.how[1], words)})
        if first.largest_batch is not None:
            lines.append({"t": words("claim_keys_fit", n=shown.number(first.largest_batch, words))})
        lines.append({"t": sentence(first.how[-1], words)})
        sources |= dict.fromkeys(source for bound in of_machine for source in bound.sources)
    links = [with_links(source) for source in sources]
    return [
        {
            "type": "fold",
            "name": "roofline",
            "title": words("claim_roofline"),
            "blocks": [{"type": "list", "items": [*lines, *links]}],
        }
    ]


def with_links(source: str) -> Block:
    """Our own data's text; the addresses in it as links."""
    found = _URL.findall(source)
    left = _URL.sub("", source).strip(" ;,()")
    return {"t": left, "lang": "en", "links": found}
