"""llama.cpp through llama-cpp-python, on the GGUF file itself: plain, and with its own prompt lookup."""

import time
from collections.abc import Sequence
from itertools import islice
from typing import Any

from engine.bench.peers.base import PeerRun
from engine.bench.peers.isolated import IsolatedArm
from engine.bench.peers.setup import PeerSetup, gguf_of, gguf_quantization, missing


class LlamaCppArm:
    """`Llama.generate`, which yields ids and knows no end of sequence."""

    def __init__(self, setup: PeerSetup, lookup: bool) -> None:
        self.setup, self.lookup = setup, lookup
        self.name = "llama.cpp prompt lookup" if lookup else "llama.cpp plain"
        self.weights = "GGUF"
        self.threads: int | None = setup.threads
        self.step_bytes: int | None = None
        self.llm: Any = None

    def available(self) -> str | None:
        return missing("llama_cpp", "llama-cpp-python", "peers-llama")

    def prepare(self) -> None:
        self.step_bytes = gguf_of(self.setup).stat().st_size  # nearly all of the file is weights

    def load(self, context_tokens: int) -> None:
        from llama_cpp import Llama
        from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

        file = gguf_of(self.setup)
        self.weights = gguf_quantization(file)
        draft = LlamaPromptLookupDecoding(num_pred_tokens=self.setup.k) if self.lookup else None
        self.llm = Llama(
            model_path=str(file), n_ctx=context_tokens + self.setup.k + 1, n_threads=self.threads,
            n_threads_batch=self.threads, n_gpu_layers=0 if self.setup.device.type == "cpu" else -1,
            logits_all=self.lookup,  # its draft is verified from the logits of every position
            draft_model=draft, verbose=False,
        )  # fmt: skip

    def run(self, prompt_ids: Sequence[int], max_new_tokens: int) -> PeerRun:
        self.llm.reset()  # it would go on from the part of the prompt that an earlier one shared
        ids: list[int] = []
        first = 0.0
        start = time.perf_counter()
        for token in islice(self.llm.generate(list(prompt_ids), temp=0.0), max_new_tokens):
            if not ids:
                first = time.perf_counter()
            ids.append(int(token))
        seconds = time.perf_counter() - start
        return PeerRun(tuple(ids), seconds, first - start if ids else None)

    def close(self) -> None:
        if self.llm is not None:
            self.llm.close()
        self.llm = None


def llama_cpp_arms(setup: PeerSetup) -> list[IsolatedArm]:
    return [IsolatedArm(LlamaCppArm(setup, lookup)) for lookup in (False, True)]
