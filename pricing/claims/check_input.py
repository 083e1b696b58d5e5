"""What a person says of a claim. Nonsense is refused in one sentence before anything is worked out."""

from __future__ import annotations

from dataclasses import dataclass, fields

from pricing.cells import finite
from pricing.claims.derivation import Given, half_place, in_words
from pricing.claims.table import ClaimError

# What somebody types is rounded: to its last digit, and to 1 % at least.
ROUNDED_TO = 0.01
# Far beyond any machine and price on both sides: further out is a slip, and what follows would be no number any more.
LEAST, MOST, MOST_COUNT = 1e-9, 1e15, 10_000_000
# Of drafted tokens: sums run over each of them.
MOST_K = 64
_UNITS = {
    "usd_per_hour": "USD/h",
    "tokens_per_second": "tokens/s",
    "plain_tokens_per_second": "tokens/s",
    "speedup": "x",
    "usd_per_million": "USD/1M",
    "plain_usd_per_million": "USD/1M",
    "mean_acceptance_length": "tokens",
    "draft_acceptance_rate": "",
    "cost_ratio": "",
    "busy_share": "",
    "gpus": "GPUs",
    "batch": "requests",
    "k": "tokens",
}
_COUNTS = ("gpus", "batch", "k")
_CLAIMED = (
    "tokens_per_second", "plain_tokens_per_second", "speedup", "usd_per_million", "plain_usd_per_million",
)  # fmt: skip
SOURCE = "as entered"


@dataclass(frozen=True, slots=True)
class ClaimInput:
    """None: not known. At least one of the claimed figures is given.

    usd_per_hour: of all `gpus` together. tokens_per_second: claimed output tokens of all requests together, with
    speculation where that is what is claimed. plain_*: without it. batch: requests at once. k: drafted tokens a step.
    mean_acceptance_length: tokens of a pass, the target's own included (1..K + 1). draft_acceptance_rate: accepted /
    proposed, another number. cost_ratio: seconds of a draft pass over those of a target pass. busy_share: of the billed
    hours. Raises ClaimError with one sentence.
    """

    model: str = ""
    gpu: str = ""
    gpus: int = 1
    usd_per_hour: float | None = None
    tokens_per_second: float | None = None
    plain_tokens_per_second: float | None = None
    speedup: float | None = None
    usd_per_million: float | None = None
    plain_usd_per_million: float | None = None
    batch: int | None = None
    k: int | None = None
    mean_acceptance_length: float | None = None
    draft_acceptance_rate: float | None = None
    cost_ratio: float | None = None
    busy_share: float = 1.0

    def __post_init__(self) -> None:
        for name in _UNITS:
            self._check_number(name)
        if not any(getattr(self, name) is not None for name in _CLAIMED):
            raise ClaimError("nothing is claimed: give tokens/s, a speed-up or USD per 1M tokens")
        for name in ("busy_share", "draft_acceptance_rate"):
            share = getattr(self, name)
            if share is not None and share > 1:
                raise ClaimError(f"{in_words(name)} is a share from 0 to 1 (0.6 is 60 %), not {share:g}")
        self._check_acceptance()

    def _check_number(self, name: str) -> None:
        value = getattr(self, name)
        if value is None:
            return
        number, words = finite(value), in_words(name)
        if number is None or number <= 0:
            told = f"{number:g}" if number is not None else str(value)[:40]
            raise ClaimError(f"{words} must be a finite number above 0, not {told}; leave it out where it is not known")
        if name in _COUNTS and number != int(number):
            raise ClaimError(f"{words} must be a whole number of at least 1, not {number:g}")
        most = MOST_K if name == "k" else MOST_COUNT if name in _COUNTS else MOST
        if not LEAST <= number <= most:
            raise ClaimError(f"{words} must be from {1 if name in _COUNTS else LEAST:g} to {most:,g}, not {number:g}")

    def _check_acceptance(self) -> None:
        k, length, rate = self.k, self.mean_acceptance_length, self.draft_acceptance_rate
        if rate is not None and length is not None:
            raise ClaimError(
                "give the mean acceptance length or accepted / proposed, not both: one follows from the other"
            )
        if rate is not None and k is None:
            raise ClaimError("accepted / proposed says nothing without K, the number of drafted tokens a step; give K")
        if self.cost_ratio is not None and k is None:
            raise ClaimError("a draft's cost ratio says nothing without K, the number of drafted tokens a step; give K")
        if length is not None and length < 1:
            raise ClaimError(f"a pass yields the target's own token at least, so no acceptance length is {length:g}")
        if length is not None and k is not None and length > k + 1:
            raise ClaimError(f"a pass yields K + 1 = {k + 1} tokens at most, so no acceptance length is {length:g}")
        if self.speedup is not None and k is not None and self.speedup > k + 1:
            raise ClaimError(f"a pass yields K + 1 = {k + 1} tokens at most, so no speed-up is {self.speedup:g}")

    @property
    def tokens_per_pass(self) -> float | None:
        """The acceptance length, given or from the rate; None where neither is known."""
        if self.draft_acceptance_rate is not None and self.k is not None:
            return 1 + self.k * self.draft_acceptance_rate
        return self.mean_acceptance_length

    @property
    def says_speculative(self) -> bool:
        """Whether anything entered says that a draft is at work."""
        said = (
            self.speedup, self.k, self.mean_acceptance_length, self.plain_tokens_per_second, self.plain_usd_per_million,
        )  # fmt: skip
        return any(value is not None for value in said)

    def given(self, name: str) -> Given | None:
        """The number as an input of a derivation; None where it was not given."""
        value = getattr(self, name)
        if value is None:
            return None
        if name in _COUNTS or (name == "busy_share" and value == 1):
            half = 0.0
        elif name == "usd_per_hour":  # 2 is a price of 2.00, not of 1.50 to 2.50
            half = ROUNDED_TO * value
        else:
            half = max(half_place(f"{value:.12g}"), ROUNDED_TO * value)
        return Given(in_words(name), float(value), _UNITS[name], "assumed", SOURCE, half=half)

    def as_dict(self) -> dict[str, object]:
        return {f.name: getattr(self, f.name) or None for f in fields(self)}
