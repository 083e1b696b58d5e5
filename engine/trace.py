"""What happened, step by step: frozen records and their JSON form.

Everything downstream (the token view, the statistics, the stored runs) reads these and nothing else.
The sum of `emitted` over the steps is the result, always.
"""

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from engine.trace_check import check_numbers

SCHEMA = "specscope.trace"
VERSION = 3
# Version 1 knew no shared prefixes and no batches: every one of its steps read its own prompt, alone. Version 2 knew no
# trees: every one of its proposals follows the one before it.
READABLE = (1, 2, 3)

Status = Literal["accepted", "rejected", "ignored"]
Kind = Literal["recovered", "bonus"]
FinishReason = Literal["eos", "stop", "length", "cancelled"]


@dataclass(frozen=True, slots=True)
class TokenText:
    """How one token reads by itself. `bytes` (hex, "C4 9F") is set when it holds a part of a character."""

    token_id: int
    text: str
    bytes: str | None = None
    special: bool = False


@dataclass(frozen=True, slots=True)
class Alternative:
    """One of the likeliest tokens at a position. probability: under the run's settings; at temperature 0,
    which leaves no law to show, the model's own softmax at temperature 1."""

    token: TokenText
    probability: float


@dataclass(frozen=True, slots=True)
class Proposal:
    """One drafted token and its test. p: target probability; q: draft probability (1 for a deterministic
    drafter); u: the uniform drawn (None where no test was made, and at temperature 0, where none is needed);
    accept_probability: what u was held against. parent: the index, among the step's proposals, of the one that it
    follows, -1 where it follows the context, and None where it follows the one before it, as in a chain; see
    `Step.parents`. source: the method that it came from, where a draft mixes several."""

    token: TokenText
    p: float
    q: float
    u: float | None
    accept_probability: float
    status: Status
    target_top: tuple[Alternative, ...] = ()
    draft_top: tuple[Alternative, ...] = ()
    parent: int | None = None
    source: str | None = None

    @property
    def accepted(self) -> bool:
        return self.status == "accepted"


@dataclass(frozen=True, slots=True)
class Replacement:
    """The target's own token that ends a step: recovered after a rejection, bonus after a full accept
    (a step with no proposals is a full accept of nothing). p: its probability in the target's law."""

    kind: Kind
    token: TokenText
    p: float
    target_top: tuple[Alternative, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """One draft and one verify. texts[i] is what emitted[i] added to the text ("" while a character is
    incomplete or a stop string might be forming; tokens that fall silent lend their text to a later one).
    replacement is None when the end fell among the accepted proposals. prefill_tokens: prompt tokens that this
    step's forward read besides the last one (only the first step). reused_prompt_tokens: prompt tokens that it did not
    read, because a prefix cache had their keys. draft_note: why fewer than k were proposed. rows: sequences that
    shared the forward; verify_ms is the whole forward's time, and other_ms holds what was waited for the others."""

    index: int
    emitted: tuple[int, ...]
    texts: tuple[str, ...]
    tokens: tuple[TokenText, ...]
    proposals: tuple[Proposal, ...]
    replacement: Replacement | None
    draft_note: str | None
    prefill_tokens: int
    draft_ms: float
    verify_ms: float
    other_ms: float
    reused_prompt_tokens: int = 0
    rows: int = 1

    @property
    def text(self) -> str:
        return "".join(self.texts)

    @property
    def total_ms(self) -> float:
        return self.draft_ms + self.verify_ms + self.other_ms

    @property
    def is_tree(self) -> bool:
        """Does any proposal follow another than the one before it?"""
        return any(p.parent is not None for p in self.proposals)

    @property
    def parents(self) -> tuple[int, ...]:
        """Of each proposal, the index of the one that it follows; -1 where it follows the context."""
        return tuple(i - 1 if p.parent is None else p.parent for i, p in enumerate(self.proposals))

    @property
    def depths(self) -> tuple[int, ...]:
        """Of each proposal, how many others it follows: 0 for the first of a chain."""
        found: list[int] = []
        for parent in self.parents:
            found.append(0 if parent < 0 else found[parent] + 1)
        return tuple(found)

    @property
    def path(self) -> tuple[int, ...]:
        """Indexes of the proposals that stand, in order: an acceptance behind a rejection does not count."""
        found: list[int] = []
        for i, (p, parent) in enumerate(zip(self.proposals, self.parents, strict=True)):
            if p.accepted and parent == (found[-1] if found else -1):
                found.append(i)
        return tuple(found)

    @property
    def num_accepted(self) -> int:
        return len(self.path)

    def as_dict(self) -> dict[str, Any]:
        """The JSON form: design's keys (`token_id`, `text`, `p`, `q`, `u`, `accepted`) and our own beside them."""
        return {
            "index": self.index,
            "emitted": list(self.emitted),
            "texts": list(self.texts),
            "tokens": [_token(t) for t in self.tokens],
            "proposals": [
                {
                    **_token(p.token),
                    "p": p.p,
                    "q": p.q,
                    "u": p.u,
                    "accept_probability": p.accept_probability,
                    "accepted": p.accepted,
                    "status": p.status,
                    "target_top": [_alternative(a) for a in p.target_top],
                    "draft_top": [_alternative(a) for a in p.draft_top],
                    "parent": parent,
                    "source": p.source,
                }
                for p, parent in zip(self.proposals, self.parents, strict=True)
            ],
            "replacement": self.replacement
            and {
                "kind": self.replacement.kind,
                **_token(self.replacement.token),
                "p": self.replacement.p,
                "target_top": [_alternative(a) for a in self.replacement.target_top],
            },
            "draft_note": self.draft_note,
            "prefill_tokens": self.prefill_tokens,
            "draft_ms": self.draft_ms,
            "verify_ms": self.verify_ms,
            "other_ms": self.other_ms,
            "reused_prompt_tokens": self.reused_prompt_tokens,
            "rows": self.rows,
        }

    @classmethod
    def from_dict(cls, d: dict[str, Any]) -> "Step":
        r = d["replacement"]
        return cls(
            index=d["index"],
            emitted=tuple(d["emitted"]),
            texts=tuple(d["texts"]),
            tokens=tuple(_read_token(t) for t in d["tokens"]),
            proposals=tuple(
                Proposal(
                    _read_token(p),
                    p["p"],
                    p["q"],
                    p["u"],
                    p["accept_probability"],
                    p["status"],
                    tuple(_read_alternative(a) for a in p["target_top"]),
                    tuple(_read_alternative(a) for a in p["draft_top"]),
                    _read_parent(p.get("parent", i - 1), i),
                    p.get("source"),
                )
                for i, p in enumerate(d["proposals"])
            ),
            replacement=r
            and Replacement(r["kind"], _read_token(r), r["p"], tuple(_read_alternative(a) for a in r["target_top"])),
            draft_note=d["draft_note"],
            prefill_tokens=d["prefill_tokens"],
            draft_ms=d["draft_ms"],
            verify_ms=d["verify_ms"],
            other_ms=d["other_ms"],
            reused_prompt_tokens=d.get("reused_prompt_tokens", 0),
            rows=d.get("rows", 1),
        )


@dataclass(frozen=True, slots=True)
class Trace:
    """One run. settings: `DecodeSettings.as_dict()` with the seed really used; pair: names, dtype and device;
    prompt_text: the rendered prompt as sent to the model; notices: what the user should know of it; queued_ms: in a
    batch, the wait from submission to admission, which no step's time and no TTFT holds."""

    steps: tuple[Step, ...]
    prompt_token_ids: tuple[int, ...]
    prompt_text: str
    settings: dict[str, Any]
    drafter: str
    verifier: str
    pair: dict[str, Any]
    finish_reason: FinishReason | None
    started_at: str
    notices: tuple[str, ...] = ()
    environment: dict[str, Any] = field(default_factory=dict)
    queued_ms: float = 0.0

    @property
    def token_ids(self) -> list[int]:
        return [t for step in self.steps for t in step.emitted]

    @property
    def text(self) -> str:
        return "".join(step.text for step in self.steps)

    def as_dict(self) -> dict[str, Any]:
        head = {f: getattr(self, f) for f in self.__slots__ if f != "steps"}
        head = {k: list(v) if isinstance(v, tuple) else v for k, v in head.items()}
        return {"schema": SCHEMA, "version": VERSION, **head, "steps": [s.as_dict() for s in self.steps]}

    def to_json(self, indent: int | None = None) -> str:
        return json.dumps(self.as_dict(), ensure_ascii=True, allow_nan=False, indent=indent)

    @classmethod
    def from_json(cls, text: str) -> "Trace":
        """Reads back what `to_json` wrote, without loss. Raises ValueError with one sentence for anything else."""
        try:
            d = json.loads(text.removeprefix("\ufeff"), parse_constant=_no_constant)
        except RecursionError:
            raise ValueError("this is no trace: its JSON is nested too deeply") from None
        if not isinstance(d, dict) or d.get("schema") != SCHEMA:
            raise ValueError(f"this is not a {SCHEMA} document; write one with `specscope generate --trace FILE`")
        if type(d.get("version")) is not int or d["version"] not in READABLE:
            raise ValueError(f"trace version {d.get('version')!r} is none of {READABLE}, which this release reads")
        del d["schema"], d["version"]
        try:
            for name in ("prompt_token_ids", "notices"):
                d[name] = tuple(d[name])
            trace = cls(**{**d, "steps": tuple(Step.from_dict(s) for s in d["steps"])})
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"this trace is not whole: {type(error).__name__} at {error}") from error
        check_numbers(trace)
        known = all(p.status in get_args(Status) for s in trace.steps for p in s.proposals)
        if not known or trace.finish_reason not in (None, *get_args(FinishReason)):
            raise ValueError("this trace is not whole: it holds values that no run writes")
        return trace


def _no_constant(name: str) -> float:
    raise ValueError(f"this is no trace: it holds {name}, which is no JSON")


def _token(t: TokenText) -> dict[str, Any]:
    return asdict(t)


def _read_token(d: dict[str, Any]) -> TokenText:
    return TokenText(d["token_id"], d["text"], d["bytes"], d["special"])


def _read_parent(parent: Any, i: int) -> Any:
    """None where proposal i follows the one before it. By type too: true is no index, though it equals 1."""
    return None if type(parent) is int and parent == i - 1 else parent


def _alternative(a: Alternative) -> dict[str, Any]:
    return {**_token(a.token), "probability": a.probability}


def _read_alternative(d: dict[str, Any]) -> Alternative:
    return Alternative(_read_token(d), d["probability"])
