"""An arm in a process of its own: native code that crashes takes that process with it and nothing else."""

import multiprocessing
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from engine.bench.peers.base import PeerRun
from engine.errors import EngineError, sentence

SECONDS_TO_GO = 3.0


class IsolatedArm:
    """`arm`, run elsewhere. Its stopwatch runs there too, so the way there and back is never measured. arm: not loaded
    yet, with a `setup`; it is pickled."""

    def __init__(self, arm: Any) -> None:
        self.arm = arm
        self.name: str = arm.name
        self.weights: str = arm.weights
        self.threads: int | None = arm.threads
        self._process: Any = None
        self._pipe: Any = None

    @property
    def step_bytes(self) -> int | None:
        return getattr(self.arm, "step_bytes", None)

    def available(self) -> str | None:
        return self.arm.available()  # type: ignore[no-any-return]

    def load(self, context_tokens: int) -> None:
        if hasattr(self.arm, "prepare"):
            self.arm.prepare()  # what is fetched is fetched here, where somebody watches
        self.arm.setup = replace(self.arm.setup, progress=None)
        # Not a fork: a child that begins with the parent's thread pools hangs in them.
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self.arm), daemon=True)
        self._process.start()
        theirs.close()
        self.weights = self._ask("load", context_tokens)

    def run(self, prompt_ids: Sequence[int], max_new_tokens: int) -> PeerRun:
        return self._ask("run", tuple(prompt_ids), max_new_tokens)  # type: ignore[no-any-return]

    def close(self) -> None:
        if self._process is None:
            return
        self._pipe.close()  # which ends the loop there
        self._process.join(SECONDS_TO_GO)
        if self._process.is_alive():
            self._process.kill()
        self._process = self._pipe = None

    def _ask(self, *question: Any) -> Any:
        try:
            self._pipe.send(question)
            kind, answer = self._pipe.recv()
        except (EOFError, OSError):
            self._process.join(SECONDS_TO_GO)
            raise EngineError(f"its process {_ending(self._process.exitcode)}") from None
        if kind == "failed":
            raise EngineError(answer)
        return answer


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"ended with code {code}"


def _serve(pipe: Any, arm: Any) -> None:
    """The other process: answers questions until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to act on
    os.dup2(sys.stderr.fileno(), 1)  # stdout may be a JSON document
    while True:
        try:
            what, *arguments = pipe.recv()
        except EOFError:
            return
        try:
            answer = ("done", getattr(arm, what)(*arguments))
            if what == "load":
                answer = ("done", arm.weights)
        except Exception as error:  # a peer may raise whatever its authors chose
            answer = ("failed", sentence(error))
        pipe.send(answer)
