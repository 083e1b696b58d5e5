"""The form of "check my claim": its fields, what was typed into them, and what is wrong with that."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from app.catalogue import Words
from app.claims_tab.fields import BESIDES, EXAMPLES, FIELDS, GROUPS, Field
from app.claims_tab.phrases import tell
from app.finance import shown
from app.finance.typed import read_number
from engine.errors import EngineError
from engine.gpu_specs import find_gpu, load_gpu_specs, match_price_gpu
from engine.model_shapes import find_shape, model_names
from engine.precision import PRECISIONS
from pricing import PriceTable
from pricing.claims import ClaimError, ClaimInput
from pricing.claims.check_input import LEAST, MOST, MOST_COUNT, MOST_K
from pricing.claims.relations import implied
from pricing.rows import PriceRow

LONGEST = 80
_N = r"(-?[0-9.e+-]+)"
# pricing's sentence -> the field, the catalogue's key, and the names of its groups.
_SAID: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    (r"nothing is claimed: .*", "tokens_per_second", "claim_fault_nothing", ()),
    (r"give the mean acceptance length or .*", "draft_acceptance_rate", "claim_fault_both", ()),
    (r"accepted / proposed says nothing without K, .*", "k", "claim_fault_rate_needs_k", ()),
    (r"a draft's cost ratio says nothing without K, .*", "k", "claim_fault_cost_needs_k", ()),
    (rf"a pass yields the target's own token .* is {_N}", "mean_acceptance_length", "claim_fault_short", ("n",)),
    (rf"a pass yields K \+ 1 = {_N} .* no acceptance length is {_N}", "mean_acceptance_length", "claim_fault_long",
     ("most", "n")),
    (rf"a pass yields K \+ 1 = {_N} .* no speed-up is {_N}", "speedup", "claim_fault_fast", ("most", "n")),
)  # fmt: skip


@dataclass
class Entered:
    """What was typed, made of it, and what cannot be: sentences by field, "" for all of it. price: the table's
    cheapest, where the claim needs a price and names none."""

    typed: dict[str, str]
    claim: ClaimInput | None = None
    besides: dict[str, Any] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)
    price: PriceRow | None = None

    def price_told(self, words: Words) -> str:
        """Which price was taken, for how many GPUs."""
        row, gpus = self._taken(), self.claim.gpus if self.claim else 1
        one, both = (shown.unit_price(n * row.per_gpu_hour, "USD", words) for n in (1, gpus))
        return words("claim_price_taken", price=one, n=gpus, total=both, source=self._source(words))

    def price_cell(self, words: Words) -> dict[str, Any]:
        """Its source, as a cell of a sheet."""
        url = self._taken().source_url
        return {"t": self._source(words), "tone": "quiet", "links": [url] if url else []}

    def _source(self, words: Words) -> str:
        row = self._taken()
        return f"{row.provider}, {row.instance}, {words.name('commitment', row.commitment)}, {row.as_of.isoformat()}"

    def _taken(self) -> PriceRow:
        assert self.price is not None, "no price was taken"
        return self.price


def drawn(words: Words, entered: Entered | None = None) -> dict[str, Any]:
    """The form's value, with what was typed in it and what is wrong with that."""
    choices = {
        "model": model_names(),
        "gpu": [{"value": "", "text": words("claim_any_gpu")}, *({"value": g, "text": g} for g in load_gpu_specs())],
        "precision": [{"value": "", "text": words("claim_any_precision")},
                      *({"value": p, "text": p} for p in PRECISIONS)],
    }  # fmt: skip
    return {
        "language": words.language,
        "groups": [
            {
                "title": words(title),
                "fold": title == "claim_group_more",
                "fields": [
                    {
                        "name": one.name,
                        "kind": one.kind,
                        "label": words(one.label),
                        "info": words(one.info) if one.info else "",
                        "unit": tell(one.unit, words),
                    }
                    for one in group
                ],
            }
            for title, group in GROUPS
        ],
        "choices": choices,
        "examples": [
            {"text": words(key), "typed": {name: _typed(value, words) for name, value in typed.items()}}
            for key, typed in EXAMPLES
        ],
        "says": {"check": words("claim_check"), "clear": words("claim_clear"), "example": words("claim_examples")},
        "typed": entered.typed if entered else {},
        "faults": entered.faults if entered else {},
        "most": LONGEST,
    }


def _typed(value: str | float, words: Words) -> str:
    return value if isinstance(value, str) else shown.exact(value, words)


def read(given: object, prices: PriceTable, words: Words, today: date | None = None) -> Entered:
    """given: what the browser sent. Every field's own fault is found; then what holds between fields, one at a time,
    as pricing refuses it."""
    held = given if isinstance(given, Mapping) else {}
    typed = {
        name: shown.clean(held[name])[:LONGEST] for name in FIELDS if isinstance(held.get(name), str)
    }  # fmt: skip
    entered, values = Entered(typed), {}
    for name, one in FIELDS.items():
        text = typed.get(name, "").strip()
        if text:
            try:
                values[name] = _value(one, text, words)
            except ValueError as error:
                entered.faults[name] = str(error)
    if entered.faults:
        return entered
    entered.besides = {name: values.pop(name) for name in BESIDES if name in values}
    try:
        claim = ClaimInput(**values)
        entered.claim, entered.price = _priced(claim, values, prices, today or date.today())
    except ClaimError as error:
        place, told = _told(str(error), words)
        entered.faults[place] = told
    return entered


def _priced(
    claim: ClaimInput, values: dict[str, Any], prices: PriceTable, today: date
) -> tuple[ClaimInput, PriceRow | None]:
    """With the table's cheapest price, which is in the claim's favour, where none is said and none follows."""
    speaks = claim.tokens_per_second or claim.usd_per_million or claim.plain_usd_per_million
    if not claim.gpu or not speaks or "usd_per_hour" in implied(claim).figures:
        return claim, None
    row = cheapest(prices, claim.gpu, today)
    return (claim, None) if row is None else (ClaimInput(**values, usd_per_hour=row.per_gpu_hour * claim.gpus), row)


def cheapest(prices: PriceTable, gpu: str, today: date) -> PriceRow | None:
    """Of the prices in force, in dollars an hour of one such GPU; None where the table has none."""
    held = [
        row for row in prices.select(currency="USD", today=today) if match_price_gpu(row.gpu, row.gpu_mem_gb) == gpu
    ]
    return min(held, key=lambda row: row.per_gpu_hour, default=None)


def _value(one: Field, text: str, words: Words) -> Any:
    """Raises ValueError with a sentence."""
    if one.kind == "model":
        return _model(text, words)
    if one.kind == "gpu":
        try:
            return find_gpu(text).name
        except EngineError:
            raise ValueError(words("claim_fault_gpu", text=text)) from None
    if one.kind == "precision":
        if text not in PRECISIONS:
            raise ValueError(words("claim_fault_precision", text=text, names=", ".join(PRECISIONS)))
        return text
    sign = "$" if one.unit.startswith("USD") else "%" if one.kind == "share" else ""
    number = read_number(text, words, sign or one.unit)
    if one.kind == "share" and "%" in text:
        number /= 100
    if number <= 0:
        raise ValueError(words("claim_fault_positive", n=shown.exact(number, words)))
    if one.kind == "share" and number > 1:
        raise ValueError(words("claim_fault_share", n=shown.exact(number, words)))
    if one.kind == "count" and number != int(number):
        raise ValueError(words("claim_fault_whole", n=shown.exact(number, words)))
    most = MOST if one.kind != "count" else MOST_K if one.name == "k" else MOST_COUNT
    if number > most:
        raise ValueError(words("claim_fault_large", most=shown.exact(most, words)))
    if number < LEAST:
        raise ValueError(words("claim_fault_small", least=shown.exact(LEAST, words)))
    return int(number) if one.kind == "count" else number


def _model(text: str, words: Words) -> str:
    """A name of the table, also with its owner. A path is none: nothing on the server's disk is read for a visitor."""
    name = text.rpartition("/")[2].strip()
    if not re.fullmatch(r"[\w .+-]+", name) or name.endswith(".json") or Path(name).exists():
        raise ValueError(words("claim_fault_model", text=text))
    try:
        find_shape(name)
    except EngineError:
        raise ValueError(words("claim_fault_model", text=text)) from None
    return name


def _told(said: str, words: Words) -> tuple[str, str]:
    """(field, sentence) of a fault between fields; in pricing's own English where the catalogues have none."""
    for pattern, place, key, names in _SAID:
        if found := re.fullmatch(pattern, said):
            numbers = dict(zip(names, found.groups(), strict=True))
            return place, words(key, **{name: shown.exact(float(n), words) for name, n in numbers.items()})
    return "", said
