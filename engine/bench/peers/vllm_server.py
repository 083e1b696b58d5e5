"""A running vLLM server, over HTTP: ids in, streamed ids out. What it decodes with is its own business."""

import json
import os
import secrets
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from engine.bench.peers.base import PeerRun
from engine.bench.peers.setup import PeerSetup
from engine.errors import EngineError

HERE = {"localhost", "127.0.0.1", "::1", "0.0.0.0"}
SECONDS_TO_ANSWER = 600.0
DRAFTS = "vllm:spec_decode_num_drafts"


class VllmServerArm:
    """`/v1/completions` with a prompt of ids and `return_token_ids`. The time holds the way there and back."""

    name = "vllm server"

    def __init__(self, setup: PeerSetup) -> None:
        self.setup = setup
        self.weights = "as served"
        self.threads: int | None = None  # its own
        self.step_bytes: int | None = None
        self.model = self.served = ""
        self.http: Any = None

    def available(self) -> str | None:
        if self.setup.vllm_url is None:
            return "no server was named; give --vllm-url URL of a running vLLM server"
        return None  # httpx comes with gradio and with huggingface-hub

    def load(self, context_tokens: int) -> None:
        import httpx

        url = str(self.setup.vllm_url).rstrip("/").removesuffix("/v1")
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise EngineError("--vllm-url must be an address such as http://localhost:8000")
        key = os.environ.get("VLLM_API_KEY")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self.http = httpx.Client(base_url=url, headers=headers, timeout=SECONDS_TO_ANSWER)
        try:
            listed = self.http.get("/v1/models", timeout=10.0)
        except httpx.HTTPError as error:
            raise EngineError(f"no server answers there ({type(error).__name__}); start it and try again") from None
        models = listed.json().get("data", []) if listed.status_code == 200 else []
        if not models:
            raise EngineError(f"the server lists no model (HTTP {listed.status_code}); is it an OpenAI-compatible one?")
        self.model = str(models[0]["id"])
        here = "on this machine" if parts.hostname in HERE else "on another machine"
        self.served = f"it serves {self.model} {here}, speculation {'on' if self._speculates() else 'off'}"

    def _speculates(self) -> bool:
        """vLLM counts drafts in its metrics only when it drafts."""
        answer = self.http.get("/metrics", timeout=10.0)
        return answer.status_code == 200 and DRAFTS in answer.text

    def run(self, prompt_ids: Sequence[int], max_new_tokens: int) -> PeerRun:
        request = {
            "model": self.model, "prompt": list(prompt_ids), "max_tokens": max_new_tokens, "temperature": 0.0,
            "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True}, "return_token_ids": True,
            # Prompts of one chat template share their first tokens; a salt of its own keeps each from another's cache.
            "cache_salt": secrets.token_hex(8),
        }  # fmt: skip
        ids: list[int] = []
        first: float | None = None
        usage = None
        start = time.perf_counter()
        with self.http.stream("POST", "/v1/completions", json=request) as answer:
            if answer.status_code != 200:
                said = answer.read().decode("utf-8", "replace")
                raise EngineError(f"the server answered HTTP {answer.status_code}: {' '.join(said.split())[:200]}")
            for chunk in _events(answer):
                usage = (chunk.get("usage") or {}).get("completion_tokens", usage)
                for choice in chunk.get("choices", []):
                    ids += choice.get("token_ids") or []
                if ids and first is None:
                    first = time.perf_counter() - start
        seconds = time.perf_counter() - start
        if not ids:
            raise EngineError(
                "the server sends no token ids, and tokens are counted from ids only; "
                "use a vLLM that knows return_token_ids"
            )
        miscount = "" if usage in (None, len(ids)) else f"; it counts {usage} tokens and sent {len(ids)} ids"
        return PeerRun(tuple(int(i) for i in ids), seconds, first, self.served + miscount)

    def close(self) -> None:
        if self.http is not None:
            self.http.close()
        self.http = None


def _events(answer: Any) -> Any:
    """The JSON objects of a stream of server-sent events."""
    for line in answer.iter_lines():
        if not line.startswith("data:") or line.removeprefix("data:").strip() == "[DONE]":
            continue
        chunk = json.loads(line.removeprefix("data:"))
        if "error" in chunk:
            raise EngineError(f"the server stopped with an error: {str(chunk['error'])[:200]}")
        yield chunk


def vllm_arms(setup: PeerSetup) -> list[VllmServerArm]:
    return [VllmServerArm(setup)]
