"""What quantising costs and gives: how far the target is from its unquantised self, what it reads, how fast it is."""

import contextlib
import ctypes
import math
import statistics
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.bench.compare import ENOUGH_PROMPTS, RESAMPLES, Comparison, Sample
from engine.bench.curves import Stopped, read_prompt
from engine.bench.divergence import HALF_NEAR_TIE, NEAR_TIE
from engine.bench.race import Race
from engine.bench.suites import BenchPrompt
from engine.decode import Stream
from engine.errors import EngineError
from engine.pair import Pair
from engine.runner import Runner
from engine.settings import DecodeSettings
from engine.stats import percentile

# Of the reference's log-probabilities, on disk: 1365 positions of the embedded model's vocabulary.
REFERENCE_BYTES = 256 * 2**20


@dataclass(frozen=True, slots=True)
class ReferenceText:
    """A prompt with the unquantised target's greedy answer. log_probs: a file of [positions, V] float32, the law behind
    each of the first `positions` tokens of the answer."""

    prompt: tuple[int, ...]
    answer: tuple[int, ...]
    log_probs: Path


class Reference:
    """The unquantised target's answers and laws, kept in files so that its weights need not stay. Use with `with`."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="specscope-")
        self.texts: list[ReferenceText] = []

    def __enter__(self) -> "Reference":
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def measure(
        self, pair: Pair, prompts: Sequence[BenchPrompt], max_new_tokens: int, cancel: threading.Event,
        room_bytes: int = REFERENCE_BYTES,
    ) -> None:  # fmt: skip
        """Each prompt's greedy answer and its laws, as many positions of each as fit in `room_bytes` altogether, at
        least one. Raises Stopped."""
        room = max(1, room_bytes // (4 * pair.target.vocab_size) // max(1, len(prompts)))
        texts = []
        for number, row in enumerate(prompts):
            stream = Stream(pair, row.prompt, DecodeSettings(max_new_tokens=max_new_tokens), "none", cancel=cancel)
            answer = tuple(t for step in stream for t in step.emitted)[:room]
            if cancel.is_set():
                raise Stopped
            if not answer:
                continue  # the prompt leaves no room for a token
            path = Path(self._folder.name) / f"{number}.npy"
            np.save(path, forced_log_probs(pair.target, stream.prompt.ids, answer).cpu().numpy())
            texts.append(ReferenceText(stream.prompt.ids, answer, path))
        self.texts = texts


@torch.inference_mode()
def forced_log_probs(runner: Runner, prompt: Sequence[int], answer: Sequence[int]) -> Tensor:
    """[len(answer), V] float32: the log-law at each token of `answer`, read behind `prompt` in one forward, whatever
    the model itself would have said."""
    cache = runner.new_cache()
    read_prompt(runner, cache, prompt[:-1])
    logits = runner.forward([prompt[-1], *answer[:-1]], cache, keep=len(answer))
    return torch.log_softmax(logits.float(), -1)


def divergence(pair: Pair, reference: Reference, cancel: threading.Event) -> dict[str, Any]:
    """How far `pair`'s target is from the reference, position by position over the same texts.

    kl_mean, kl_p95: KL(reference || this) in nats. greedy_agreement: share of positions with the same argmax, and its
    95% interval when whole texts are resampled. first_differences: of the texts that part, where (median position) and
    by what margin of the reference's two likeliest tokens (median); near_ties counts those that rounding alone
    explains. Raises Stopped.
    """
    kl: list[float] = []
    same: list[tuple[int, int]] = []  # of each text: positions that agree, positions
    parted: list[tuple[int, float]] = []
    for text in reference.texts:
        if cancel.is_set():
            raise Stopped
        was = torch.from_numpy(np.load(text.log_probs)).double()  # [n, V]
        now = forced_log_probs(pair.target, text.prompt, text.answer).cpu().double()
        found = kl_divergence(was, now)
        agrees = was.argmax(-1) == now.argmax(-1)
        kl += found.tolist()
        same.append((int(agrees.sum()), len(agrees)))
        if not bool(agrees.all()):
            at = int((~agrees).nonzero()[0])
            first, second = was[at].topk(2).values.exp().tolist()
            parted.append((at, first - second))
    if not same:
        raise EngineError("the unquantised target has said nothing that could be held against this one")
    allowed = NEAR_TIE if pair.dtype == "float32" else HALF_NEAR_TIE
    positions = sum(n for _, n in same)
    return {
        "texts": len(same),
        "positions": positions,
        "kl_mean": _finite(sum(kl) / positions),
        "kl_p95": _finite(percentile(kl, 0.95)),
        "greedy_agreement": sum(a for a, _ in same) / positions,
        "greedy_agreement_interval": share_interval(same),
        "first_differences": {
            "texts": len(parted),
            "median_position": statistics.median(at for at, _ in parted) if parted else None,
            "median_margin": statistics.median(m for _, m in parted) if parted else None,
            "near_ties": sum(m <= allowed for _, m in parted),
        },
    }


def kl_divergence(was: Tensor, now: Tensor) -> Tensor:
    """[n]: KL(was || now) in nats of log-laws [n, V]; what `was` never says counts nothing, and rounding never makes
    it negative."""
    terms = was.exp() * (was - now)
    return terms.masked_fill(was == float("-inf"), 0.0).sum(-1).clamp(min=0.0)


def _finite(value: float | None) -> float | None:
    """A law that rules out what the other says is infinitely far from it, which JSON has no word for."""
    return value if value is not None and math.isfinite(value) else None


def share_interval(counts: Sequence[tuple[int, int]]) -> list[float] | None:
    """95% of the share (hits / trials in all) when the rows are resampled; None below two."""
    rows = np.array(counts, dtype=float)  # [texts, 2]
    if len(rows) < 2:
        return None
    drawn = rows[np.random.default_rng(0).integers(len(rows), size=(RESAMPLES, len(rows)))].sum(1)  # [RESAMPLES, 2]
    return [float(q) for q in np.quantile(drawn[:, 0] / drawn[:, 1], [0.025, 0.975])]


@dataclass(frozen=True, slots=True)
class Change:
    """A share before and after, over the same prompts. interval: 95% of after - before when prompts are resampled.
    word: "lower", "higher" or "no difference that these prompts can show", as the interval decides."""

    before: float | None
    after: float | None
    interval: tuple[float, float] | None
    word: str


def acceptance_change(before: Sequence[Sequence[int]], after: Sequence[Sequence[int]]) -> Change:
    """alpha before and after. before[i], after[i]: of prompt i, [tested, accepted, ...]; the same prompts, so each
    resample draws both of a prompt."""
    rows = np.array([[b[0], b[1], a[0], a[1]] for b, a in zip(before, after, strict=True)], dtype=float)  # [prompts, 4]
    totals = rows.sum(0)
    was, now = (totals[i + 1] / totals[i] if totals[i] else None for i in (0, 2))
    if was is None or now is None:
        return Change(was, now, None, "not known: nothing was drafted")
    drawn = rows[np.random.default_rng(0).integers(len(rows), size=(RESAMPLES, len(rows)))].sum(1)  # [RESAMPLES, 4]
    drawn = drawn[(drawn[:, 0] > 0) & (drawn[:, 2] > 0)]
    if len(rows) < ENOUGH_PROMPTS or not len(drawn):
        return Change(was, now, None, "from too few prompts for a verdict")
    low, high = np.quantile(drawn[:, 3] / drawn[:, 2] - drawn[:, 1] / drawn[:, 0], [0.025, 0.975])
    word = "lower" if high < 0 else "higher" if low > 0 else "no difference that these prompts can show"
    return Change(float(was), float(now), (float(low), float(high)), word)


def plain_speed(
    pair: Pair, anchor: Pair, prompts: Sequence[BenchPrompt], name: str, max_new_tokens: int, cancel: threading.Event
) -> dict[str, Any]:
    """Plain decoding of `pair` beside that of `anchor`, token by token in turns: seconds of the anchor / seconds of
    this one for as many tokens. Raises Stopped."""
    settings = DecodeSettings(max_new_tokens=max_new_tokens, ignore_eos=True)
    samples: list[Sample] = []
    for at, row in enumerate([prompts[0], *prompts]):  # the first one warms up and is dropped
        both = Race(Stream(pair, row.prompt, settings, "none", cancel=cancel),
                    Stream(anchor, row.prompt, settings, "none", cancel=cancel), plain_leads=at % 2 == 1)  # fmt: skip
        for _ in both:
            pass
        if cancel.is_set():
            raise Stopped
        if at:
            samples.append(Sample.of(row.category, at, both.plain.generation, both.speculative.generation))
    result = Comparison(tuple(samples), name, True, settings)
    own, other = result.speculative, result.plain
    return {
        "interleaved": True,
        "ratio": own.ratio,
        "interval": list(own.interval) if own.interval else None,
        "tokens_per_second": own.output_tokens_per_second,
        "anchor_tokens_per_second": other.output_tokens_per_second,
    }


def resident_bytes(device: str = "cpu") -> int | None:
    """What this process holds of memory: on CUDA what torch has allocated, else the resident set; None where the
    system does not say."""
    if device.startswith("cuda"):
        return int(torch.cuda.memory_allocated(device))
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)  # glibc keeps what is freed; loading frees more than it keeps
    return _proc("/proc/self/status", "VmRSS:")


def can_hold_another(pair: Pair) -> bool:
    """Whether a second copy of the weights, which is larger while it is loaded, fits beside the first."""
    runners = {id(r): r for r in (pair.target, pair.draft) if r is not None}.values()
    size = sum(r.n_params * torch.empty(0, dtype=r.dtype).element_size() for r in runners)
    if pair.device.startswith("cuda"):
        return bool(torch.cuda.mem_get_info(pair.target.device)[0] > 2 * size)
    available = _proc("/proc/meminfo", "MemAvailable:")
    return available is not None and available > 4 * size


def _proc(path: str, name: str) -> int | None:
    """Bytes of a line of Linux's own accounts, which counts in kB."""
    try:
        lines = Path(path).read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(name)), None)
