"""What kind of number a figure is. Every figure that is shown carries one of these."""

from __future__ import annotations

from typing import Literal, NamedTuple

# measured: here, on the hardware named beside it. projected: by the roofline. quoted: from a source that is named.
# assumed: a choice. fitted: solved for, from results that are named.
Label = Literal["measured", "projected", "quoted", "assumed", "fitted"]


class Assumption(NamedTuple):
    """One input of a projection. label: what kind of number it is; basis: from what, in a few words, or ""."""

    name: str
    value: float | int | str
    label: Label
    basis: str = ""

    def __str__(self) -> str:
        shown = self.value if isinstance(self.value, str) else f"{self.value:g}"
        return f"{self.name}: {shown} ({self.label}{': ' if self.basis else ''}{self.basis})"
