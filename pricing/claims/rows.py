"""One row of `claims.csv` (what is claimed, by whom, what documents say of it) and of `claim_inputs.csv` (its
numbers)."""

from __future__ import annotations

import re
from typing import Annotated, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationInfo, field_validator

from pricing.cells import OptionalText, OptionalUrl, Text, blank, one_of, positive, seen, shown
from pricing.claims.derivation import Given, half_place, in_words

# article: of the article that the project started from. published: by its own author, with a place to read it.
Origin = Literal["article", "published"]
# What documents say of it. publishes: the source itself prints the figure. superseded: it was so and is no longer.
SourcesSay = Literal["against", "superseded", "supports", "publishes", "none"]
# F a source file, D a documentation page, I an issue or pull request, S told by somebody else, the original not read.
Evidence = Literal["F", "D", "I", "S"]
EVIDENCE: dict[Evidence, str] = {
    "F": "a source file of a named version",
    "D": "a page of documentation or a paper's own text",
    "I": "an issue or a pull request",
    "S": "told by somebody else, the original was not read",
}
# stated: the claim names its machine. assumed: it does not, and a plausible one is held beside it.
MachineLabel = Literal["stated", "assumed"]
_DATE = re.compile(r"[0-9]{4}(-(0[1-9]|1[0-2])(-[0-3][0-9])?)?")
_ID = re.compile(r"[a-z][a-z0-9]*")


def _id(value: object) -> str:
    text = seen(value) if isinstance(value, str) else ""
    if not _ID.fullmatch(text):
        raise ValueError(f"{shown(value)} is not an id: a small letter, then small letters and digits")
    return text


def _date(value: object) -> str:
    text = "" if blank(value) else seen(str(value))
    if text and not _DATE.fullmatch(text):
        raise ValueError(f"{shown(text)} is not a date written YYYY, YYYY-MM or YYYY-MM-DD")
    return text


def _ids(value: object) -> tuple[str, ...]:
    return tuple(_id(word) for word in str(value or "").split())


def _optional_count(value: object) -> int | None:
    if blank(value):
        return None
    number = positive(value)
    if not number.is_integer():
        raise ValueError(f"{shown(value)} is not a whole number")
    return int(number)


def _optional_of(allowed: tuple[str, ...]) -> BeforeValidator:
    check = one_of(allowed).func
    return BeforeValidator(lambda value: None if blank(value) else check(value))  # type: ignore[call-arg]


Id = Annotated[str, BeforeValidator(_id)]


class ClaimRow(BaseModel):
    """model, gpu, gpus, precision, batch: what the claim (machine = stated) or we (assumed) say it ran on; gpus None:
    the claim does not say how many. rule: which arithmetic applies (`pricing.claims.rules`). compares_with: ids of the
    claims whose figures that arithmetic reads. sources: what documents say, in our words."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: Id
    origin: Annotated[Origin, one_of(get_args(Origin))]
    claim: Text
    value: Text
    unit: Text
    source: Text
    date: Annotated[str, BeforeValidator(_date)] = ""
    conditions: OptionalText = ""
    rule: Text
    compares_with: Annotated[tuple[str, ...], BeforeValidator(_ids)] = ()
    model: OptionalText = ""
    gpu: OptionalText = ""
    gpus: Annotated[int | None, BeforeValidator(_optional_count)] = None
    precision: OptionalText = ""
    batch: Annotated[int | None, BeforeValidator(_optional_count)] = None
    machine: Annotated[MachineLabel | None, _optional_of(get_args(MachineLabel))] = None
    sources_say: Annotated[SourcesSay, one_of(get_args(SourcesSay))]
    sources: Text
    evidence: Annotated[Evidence | None, _optional_of(get_args(Evidence))] = None
    evidence_url: OptionalUrl = ""

    @field_validator("machine")
    @classmethod
    def _with_its_machine(cls, machine: str | None, info: ValidationInfo) -> str | None:
        named = [bool(info.data.get(name)) for name in ("model", "gpu", "precision")]
        if machine is None and any(named):
            raise ValueError("the cell is blank; say whether the machine is stated or assumed")
        if machine is not None and not all(named):
            raise ValueError("a machine needs a model, a gpu and a precision")
        return machine

    @field_validator("evidence_url")
    @classmethod
    def _evidence_can_be_read(cls, url: str, info: ValidationInfo) -> str:
        says = info.data.get("sources_say")
        if not url and says is not None and says != "none":
            raise ValueError("the cell is blank; what documents say needs an address to read it at")
        return url


class InputRow(BaseModel):
    """One number of a claim. at: which of several ("K 3", "batch 16"), or blank. source: blank where it is the claim's
    own; what is assumed says why."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    claim: Id
    name: Text
    at: OptionalText = ""
    value: Text
    unit: OptionalText = ""
    label: Annotated[Literal["quoted", "assumed"], one_of(("quoted", "assumed"))]
    source: OptionalText = ""

    @field_validator("value")
    @classmethod
    def _a_number(cls, value: str) -> str:
        positive(value)
        return value

    @field_validator("source")
    @classmethod
    def _assumptions_say_why(cls, source: str, info: ValidationInfo) -> str:
        if not source and info.data.get("label") == "assumed":
            raise ValueError("the cell is blank; an assumed number says why it is taken")
        return source

    def given(self, source: str) -> Given:
        """source: of a number that names none."""
        return Given(
            name=in_words(self.name), value=positive(self.value), unit=self.unit, label=self.label,
            source=self.source or source, at=self.at, half=half_place(self.value),
        )  # fmt: skip


CLAIM_COLUMNS = tuple(ClaimRow.model_fields)
INPUT_COLUMNS = tuple(InputRow.model_fields)
