"""Decoding speed of a fused model against the memory roofline, for each K and batch, with scripted acceptance.

scripted: which proposals stand is drawn at a given rate, in place of a trained draft's. The forward, the law, the
accept tests, the draws and the host read of every step are done and timed all the same. What a draft itself costs is
left out of a "free" figure, and taken from a measured 1B-shaped model in the other one.
"""

import copy
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from engine.cache import SlotCache
from engine.clock import Stopwatch
from engine.fused import FusedDecoder
from engine.gpu_specs import GpuSpec, load_gpu_specs
from engine.settings import DecodeSettings
from engine.transfer import upload
from engine.verify import Case, judge_cases

CONTEXT, RATE = 512, 0.8
KS, BATCHES = range(9), (1, 2, 4, 8, 16, 32, 64)
WARM, FORWARDS, MOST_STEPS, POINT_SECONDS = 2, 8, 16, 0.4
SETTINGS = DecodeSettings(temperature=0.8)
# Part of the name that the driver reports, with the memory in GB where one name has several -> the name in our table.
NAMES = (
    ("GB200", None, "GB200 (per GPU)"), ("B300", None, "B300 SXM (HGX, Blackwell Ultra)"),
    ("B200", None, "B200 SXM (HGX)"), ("H200", None, "H200 SXM"), ("H100 NVL", None, "H100 NVL"),
    ("H100 PCIe", None, "H100 PCIe"), ("H100 80GB HBM3", None, "H100 SXM"), ("A100-SXM", 40, "A100 40GB SXM"),
    ("A100-SXM", 80, "A100 80GB SXM"), ("A100-PCIE", 40, "A100 40GB PCIe"), ("A100 80GB PCIe", None, "A100 80GB PCIe"),
    ("L40S", None, "L40S"),
)  # fmt: skip


@dataclass(frozen=True)
class Point:
    """forward_s: device time of one graph replay with its copies in and out. step_s: wall time of a whole step, its
    host read included. tokens_per_step: of all rows, with the scripted acceptance."""

    k: int
    batch: int
    forward_s: float
    step_s: float
    tokens_per_step: float
    bytes_read: int

    @property
    def tokens_per_second(self) -> float:
        return self.tokens_per_step / self.step_s

    def roofline_share(self, bytes_per_second: float) -> float:
        """Of the forward's time, the part that reading its bytes once would take."""
        return self.bytes_read / bytes_per_second / self.forward_s

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "tokens_per_second": self.tokens_per_second}


class Budget:
    """Wall seconds. over(): would another point, as slow as the slowest so far, run past the end?"""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock, self.end, self.slowest = clock, clock() + seconds, 0.0
        self._since = clock()

    def over(self) -> bool:
        now = self.clock()
        self.slowest = max(self.slowest, now - self._since)
        self._since = now
        return now + self.slowest > self.end


def spec_of(device_name: str, memory_bytes: float) -> GpuSpec | None:
    """The data sheet of a device by the name that its driver gives it; None for one that is not in the table."""
    gb = memory_bytes / 1e9
    for part, memory, name in NAMES:
        if part.lower() in device_name.lower() and (memory is None or abs(gb - memory) < 10):
            return load_gpu_specs().get(name)
    return None


def copied_bytes_per_second(device: torch.device, size: int = 2**30, rounds: int = 5) -> float:
    """What a copy within the device reaches, reading and writing counted: the bandwidth that a program can get."""
    source = torch.empty(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    best = float("inf")
    for _ in range(rounds):
        watch = Stopwatch(device)
        with watch.running():
            target.copy_(source)
        best = min(best, watch.take())
    return 2 * size / best


def bytes_read(fused: FusedDecoder, rows: int, context: int) -> int:
    """Weights once, and the keys and values of `context` positions of each row. The embedding's single rows are not
    counted, nor what a length bucket reads beyond them."""
    layers = ((layer.qkv, layer.out, layer.gate_up, layer.down) for layer in fused.layers)
    weights = sum(linear.nbytes for layer in layers for linear in layer) + fused.head.nbytes
    return weights + rows * context * kv_bytes(fused)


def kv_bytes(fused: FusedDecoder) -> int:
    """Of one token."""
    return 2 * len(fused.layers) * fused.kv_heads * fused.head_dim * fused.embedding.element_size()


def sliced(fused: FusedDecoder, layers: int) -> FusedDecoder:
    """The same model with its first layers only, on the same weights."""
    part = copy.copy(fused)
    part.layers, part.num_layers = fused.layers[:layers], layers
    return part


def most_important_first(ks: Iterable[int], batches: Iterable[int]) -> list[tuple[int, int]]:
    """(batch, K) in an order that may be broken off: the corners, then K = 0, 4, 8 everywhere, then the rest."""
    every = [(b, k) for b in batches for k in ks]
    ends = {min(every)[0], max(every)[0]} if every else set()
    rank = [lambda b, k: k in (0, 4) and b in ends, lambda b, k: k == 0, lambda b, k: k in (4, 8), lambda b, k: True]
    return sorted(every, key=lambda p: (next(i for i, r in enumerate(rank) if r(*p)), p))


def accepted(rate: float, k: int, chance: random.Random) -> int:
    """Scripted: how many of k proposals stand when each does with probability `rate`, given those before it."""
    return next((i for i in range(k) if chance.random() >= rate), k)


class Rows:
    """`batch` rows with `context` tokens each, whose keys are zeros: as fast to read as any."""

    def __init__(self, decoder: Any, fused: FusedDecoder, batch: int, context: int, ahead: int) -> None:
        self.decoder, self.fused, self.batch, self.context = decoder, fused, batch, context
        self.device, self.chance = fused.embedding.device, random.Random(0)
        buffers = getattr(decoder, "buffers", None)
        self.cache = SlotCache(fused.num_layers, batch, buffers.zeros if buffers else torch.zeros)
        self.cache.reserve(context + ahead)
        fused.stack(self.cache)
        self.cache.advance(context)
        self.generators = [torch.Generator().manual_seed(i) for i in range(batch)]

    def ids(self, k: int) -> list[list[int]]:
        return [[self.chance.randrange(self.fused.vocab_size) for _ in range(k + 1)] for _ in range(self.batch)]

    def forward(self, ids: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """The ids on the device, [rows, k + 1], and their logits [rows, k + 1, V]."""
        width = len(ids[0])
        batch = upload([t for row in ids for t in row], self.device).view(self.batch, width)
        logits = self.decoder.forward(batch, self.cache, width)
        self.cache.advance(width)
        return batch, logits

    def rollback(self, lengths: Sequence[int]) -> None:
        for row, length in enumerate(lengths):
            self.cache.rollback(length, row)

    def forward_seconds(self, k: int, count: int) -> float:
        watch, ids = Stopwatch(self.device), self.ids(k)
        with watch.running():
            for _ in range(count):
                self.forward(ids)
                self.rollback([self.context] * self.batch)
        return watch.take() / count

    def step(self, k: int, rate: float) -> int:
        """One step of all rows; returns the tokens that came of it."""
        starts, ids = self.cache.lengths, self.ids(k)
        batch, logits = self.forward(ids)
        cases = [
            Case(logits[r], row[1:], None, row[:1], SETTINGS, "rejection", self.generators[r], batch[r, 1:])
            for r, row in enumerate(ids)
        ]
        judge_cases(cases)  # the host read; its verdicts give way to the script's
        stands = [accepted(rate, k, self.chance) for _ in range(self.batch)]
        self.rollback([n + s + 1 for n, s in zip(starts, stands, strict=True)])
        return sum(stands) + self.batch


@torch.inference_mode()
def measure(rows: Rows, k: int, rate: float = RATE, seconds: float = POINT_SECONDS) -> Point:
    """From captured graphs; `seconds` is what the timed steps may take, though at least three are."""
    home = [rows.context] * rows.batch
    for _ in range(WARM):
        rows.step(k, rate)
        rows.rollback(home)
    forward_s = rows.forward_seconds(k, FORWARDS)
    start = time.perf_counter()
    rows.step(k, rate)
    steps = max(3, min(MOST_STEPS, int(seconds / max(time.perf_counter() - start, 1e-9))))
    rows.rollback(home)
    start = time.perf_counter()
    tokens = sum(rows.step(k, rate) for _ in range(steps))
    step_s = (time.perf_counter() - start) / steps
    rows.rollback(home)
    context = rows.context
    return Point(k, rows.batch, forward_s, step_s, tokens / steps, bytes_read(rows.fused, rows.batch, context))


def measure_grid(
    decoder: Any, fused: FusedDecoder, budget: Budget, ks: Sequence[int] = KS, batches: Sequence[int] = BATCHES,
    context: int = CONTEXT, rate: float = RATE,
) -> Iterator[Point]:  # fmt: skip
    """Points until the budget is spent, or a batch does not fit the memory."""
    held: Rows | None = None
    too_large = float("inf")
    for batch, k in most_important_first(ks, batches):
        if budget.over():
            return
        if batch >= too_large:
            continue
        try:
            if held is None or held.batch != batch:
                held = None  # its buffer goes back before another is asked for
                held = Rows(decoder, fused, batch, context, (MOST_STEPS + WARM) * (max(ks) + 1))
            yield measure(held, k, rate)
        except torch.OutOfMemoryError:
            held, too_large = None, batch


def extrapolated(point: Point, without_layers: Point, layers: int, whole: int) -> Point:
    """A point of `layers` layers carried to `whole` of them: what the layers took grows in proportion, what embedding,
    head and sampling took stays."""
    factor = whole / layers
    grown = [
        none + (full - none) * factor
        for full, none in ((point.forward_s, without_layers.forward_s), (point.step_s, without_layers.step_s))
    ]
    read = without_layers.bytes_read + (point.bytes_read - without_layers.bytes_read) * factor
    return Point(point.k, point.batch, grown[0], grown[1], point.tokens_per_step, int(read))


# --- what is printed ---


def matrix(title: str, points: Iterable[Point], value: Callable[[Point], str | None]) -> str:
    """A table with a row for each batch and a column for each K; "-" where nothing was measured."""
    cells = {(p.batch, p.k): value(p) or "-" for p in points}
    ks, batches = sorted({k for _, k in cells}), sorted({b for b, _ in cells})
    head = "batch".rjust(7) + "".join(f"K={k}".rjust(9) for k in ks)
    lines = [str(b).rjust(7) + "".join(cells.get((b, k), "-").rjust(9) for k in ks) for b in batches]
    return "\n".join([title, head, *lines, ""])


def tables(name: str, points: Sequence[Point], bandwidth: float, source: str, draft: dict[int, float]) -> str:
    """draft: batch -> seconds of one forward of a 1B-shaped draft, where it was measured."""

    def with_draft(p: Point) -> str | None:
        if p.batch not in draft:
            return None
        return f"{p.tokens_per_step / (p.step_s + p.k * draft[p.batch]):.0f}"

    plain = {p.batch: p.tokens_per_second for p in points if p.k == 0}
    shown = [
        matrix(
            f"{name}: % of the memory roofline ({bandwidth / 1e12:.2f} TB/s, {source}); K=0 is plain decoding",
            points, lambda p: f"{100 * p.roofline_share(bandwidth):.0f}",
        ),
        matrix(f"{name}: tokens/s, scripted acceptance {RATE}, a draft that costs nothing", points,
               lambda p: f"{p.tokens_per_second:.0f}"),
        matrix(f"{name}: times plain decoding, same conditions", points,
               lambda p: f"{p.tokens_per_second / plain[p.batch]:.2f}" if p.batch in plain else None),
    ]  # fmt: skip
    if draft:
        shown.append(
            matrix(
                f"{name}: tokens/s, scripted acceptance {RATE}, K forwards of the 1B shape as draft", points, with_draft
            )
        )
    return "\n".join(shown)
