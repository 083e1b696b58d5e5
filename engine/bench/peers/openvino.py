"""OpenVINO GenAI on the GGUF file, which it converts itself: plain, and with its own prompt lookup."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.bench.peers.base import PeerRun
from engine.bench.peers.isolated import IsolatedArm
from engine.bench.peers.setup import PeerSetup, gguf_of, gguf_quantization, missing, not_on_this_device

# Its GGUF reader makes a whole zero point of each block's offset (gguf_utils/building_blocks.cpp).
ROUNDED = "it rounds the offset of each block of weights when it reads GGUF, so its ids may part from the others'"
MAX_NGRAM = 3  # what its own sample takes; the setting has no default


class OpenVinoArm:
    """`LLMPipeline.generate` from ids to ids."""

    def __init__(self, setup: PeerSetup, lookup: bool) -> None:
        self.setup, self.lookup = setup, lookup
        self.name = "openvino prompt lookup" if lookup else "openvino plain"
        self.weights = "GGUF"
        self.threads: int | None = setup.threads
        self.step_bytes: int | None = None
        self.pipe: Any = None

    def available(self) -> str | None:
        absent = missing("openvino_genai", "openvino-genai", "peers-openvino")
        return absent or not_on_this_device("OpenVINO", self.setup)

    def prepare(self) -> None:
        gguf_of(self.setup)

    def load(self, context_tokens: int) -> None:
        import openvino_genai

        file = gguf_of(self.setup)
        self.weights = gguf_quantization(file)
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.enable_prefix_caching = False  # prompts of one chat template share their first tokens
        more = {"prompt_lookup": True} if self.lookup else {}
        self.pipe = openvino_genai.LLMPipeline(
            str(file), "CPU", INFERENCE_NUM_THREADS=self.threads, scheduler_config=scheduler, **more
        )

    def run(self, prompt_ids: Sequence[int], max_new_tokens: int) -> PeerRun:
        import openvino_genai
        from openvino import Tensor

        config = openvino_genai.GenerationConfig()
        config.max_new_tokens, config.ignore_eos, config.do_sample = max_new_tokens, True, False
        config.apply_chat_template = False
        if self.lookup:
            config.num_assistant_tokens, config.max_ngram_size = self.setup.k, MAX_NGRAM
        start = time.perf_counter()
        result = self.pipe.generate(Tensor(np.array([list(prompt_ids)], dtype=np.int64)), config)
        ids = tuple(int(i) for i in result.tokens[0])
        seconds = time.perf_counter() - start
        return PeerRun(ids, seconds, float(result.perf_metrics.get_ttft().mean) / 1e3, ROUNDED)

    def close(self) -> None:
        self.pipe = None


def openvino_arms(setup: PeerSetup) -> list[IsolatedArm]:
    return [IsolatedArm(OpenVinoArm(setup, lookup)) for lookup in (False, True)]
