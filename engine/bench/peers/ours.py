"""specscope itself, plain and with a draft, through the public calls that anyone would use."""

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import torch

from engine.bench.peers.base import PeerRun
from engine.bench.peers.setup import PeerSetup
from engine.decode import generate, stream
from engine.errors import EngineError
from engine.pair import Pair, load_pair
from engine.settings import DecodeSettings
from engine.weights import PRESETS

AS_THEY_ARE = "none"
# The most that cost-optimal K may draft.
COMPOSITE_K = 16


class OursArm:
    """One drafter ("none" is plain decoding) over one set of weights. `pair()` gives the pair that arms share."""

    def __init__(self, setup: PeerSetup, drafter: str, quantization: str, pair: Any) -> None:
        self.setup, self.drafter, self._pair = setup, drafter, pair
        self.weights = setup.weights if quantization == AS_THEY_ARE else quantization
        self.name = f"specscope {'plain' if drafter == 'none' else drafter} {self.weights}"
        self.threads: int | None = setup.threads
        self.step_bytes: int | None = None
        control = setup.k_control or ("cost" if drafter == "composite" else "fixed")
        k = max(setup.k, COMPOSITE_K) if control == "cost" else setup.k
        self.settings = DecodeSettings(k=k, k_control=control, ignore_eos=True, seed=0)

    def available(self) -> str | None:
        return None

    def load(self, context_tokens: int) -> None:
        self.step_bytes = self._pair().target.read_bytes
        # What is measured or loaded once a process is no part of any prompt's time.
        stream(self._pair(), [0], replace(self.settings, max_new_tokens=2), self.drafter).close()

    def run(self, prompt_ids: Sequence[int], max_new_tokens: int) -> PeerRun:
        settings = replace(self.settings, max_new_tokens=max_new_tokens)
        start = time.perf_counter()
        done = generate(self._pair(), list(prompt_ids), settings, self.drafter)
        seconds = time.perf_counter() - start
        s = done.stats
        counts = {"proposed": s.proposed, "accepted": s.accepted, "target_forwards": s.target_forwards}
        return PeerRun(tuple(done.token_ids), seconds, s.ttft_s, None, counts)

    def close(self) -> None:
        self._pair = None


def our_settings(arms: Sequence[Any]) -> dict[str, dict[str, Any]]:
    """How each of our drafting arms chooses K, by its name."""
    ours = [arm for arm in arms if isinstance(arm, OursArm) and arm.drafter != "none"]
    return {a.name: {"k": a.settings.k, "k_control": a.settings.k_control, "tree_nodes": None} for a in ours}


def our_arms(setup: PeerSetup) -> list[OursArm]:
    """For each quantization: plain, then each drafter; they share one pair, loaded when the first of them is."""
    default = "model" if setup.draft_source else "prompt_lookup"
    arms = []
    for quantization in dict.fromkeys(setup.quantizations):
        pair = cache(_loader(setup, quantization))
        names = ("none", *(setup.drafters or (default, "composite")))
        arms += [OursArm(setup, drafter, quantization, pair) for drafter in dict.fromkeys(names)]
    return arms


def _loader(setup: PeerSetup, quantization: str) -> Any:
    refused: list[EngineError] = []

    def load() -> Pair:
        if refused:  # what one arm was refused, the next one need not wait for
            raise refused[0]
        preset = setup.source in PRESETS
        try:
            return load_pair(
                setup.source if preset else None,
                target=None if preset else setup.source,
                draft=setup.draft,
                device=str(setup.device),
                dtype=setup.dtype,
                quantization=None if quantization == AS_THEY_ARE else quantization,
                trust_remote_code=setup.trust_remote_code,
                progress=setup.progress,
                heads=setup.heads,
            )
        except EngineError as error:
            refused.append(error)
            raise
        finally:
            torch.set_num_threads(setup.threads)  # loading may choose another number; here all arms have the same

    return load
