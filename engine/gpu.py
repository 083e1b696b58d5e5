"""The fused forward as CUDA graphs: one for each (rows, width, length bucket), captured on first use, then replayed.

Decoding a few tokens launches hundreds of small kernels, and the host takes longer to launch them than the GPU to run
them. A graph launches all of them at once. What changes from step to step stands in tensors that the graph reads
(`StaticPlace`); sampling and acceptance stay outside, where settings may differ from row to row.

Nothing in here knows CUDA but `CudaGraphs`, so the rest is tested with a backend that runs the function again.
"""

import os
import threading
import time
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from engine.buffers import BufferPool, length_bucket, same_memory
from engine.cache import SlotCache
from engine.fused import Asked, FusedDecoder, Read
from engine.notice import Notice
from engine.transfer import upload

# Graphs that are kept; the one that has not been used for longest makes room. A graph holds little memory of its own.
MOST_GRAPHS = 128
# Tokens of one forward above which the GPU is busy for longer than the host takes to launch it.
MOST_TOKENS = 1024
WARM_UPS = 2
# One capture at a time in a process, whichever model asks for it.
CAPTURING = threading.Lock()

Run = Callable[[], object]


class Backend(Protocol):
    """Who captures and replays."""

    def capture(self, run: Run) -> Run:
        """A function that does what `run` does, on the same tensors. It may call `run` any number of times."""
        ...

    def ordered(self) -> AbstractContextManager[None]:
        """Around all use of tensors that replays share: what is queued inside comes after what was queued before."""
        ...


class CudaGraphs:
    """torch.cuda.CUDAGraph with one memory pool for all graphs, which is safe because no two replays overlap and what
    a replay leaves is copied out before the next."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.pool = torch.cuda.graph_pool_handle()
        self.stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self.done = torch.cuda.Event()  # type: ignore[no-untyped-call]

    def capture(self, run: Run) -> Run:
        with torch.cuda.device(self.device), CAPTURING:
            current = torch.cuda.current_stream()
            try:
                # Libraries set themselves up on their first call, which must not happen inside a capture.
                self.stream.wait_stream(current)
                with torch.cuda.stream(self.stream):
                    for _ in range(WARM_UPS):
                        run()
                current.wait_stream(self.stream)
                graph = torch.cuda.CUDAGraph()
                # thread_local: other threads may go on allocating and launching.
                with torch.cuda.graph(graph, pool=self.pool, stream=self.stream, capture_error_mode="thread_local"):
                    run()
            finally:
                torch.cuda.set_stream(current)  # a capture that fails leaves its own stream behind
        return graph.replay

    @contextmanager
    def ordered(self) -> Iterator[None]:
        stream = torch.cuda.current_stream(self.device)
        stream.wait_event(self.done)  # threads may queue on streams of their own
        yield
        self.done.record(stream)


@dataclass(frozen=True, slots=True)
class Graph:
    """ids [rows, width] and lengths [rows] are read by a replay, out [rows, width, V] is written. kept: tensors whose
    addresses the graph knows, which must live as long as it does; the first is the key/value buffer."""

    replay: Run
    ids: Tensor
    lengths: Tensor
    out: Tensor
    kept: tuple[Tensor, ...]


class GraphedDecoder:
    """A FusedDecoder's `forward` with the same arguments and the same answers. Any number of threads may call it.

    notice: why no graphs are used, once a capture has failed; everything then runs eagerly. captures,
    capture_seconds: how many graphs were made, and what that took.
    """

    def __init__(self, fused: FusedDecoder, backend: Backend, most_graphs: int = MOST_GRAPHS) -> None:
        self.fused, self.backend, self.most_graphs = fused, backend, most_graphs
        # Weakly: a pair that is let go of must give its memory back at once, not when cycles are next collected.
        forget = weakref.WeakMethod(self._forget)
        self.buffers = BufferPool(lambda buffer: (found := forget()) and found(buffer))
        self.notice: str | None = None
        self.captures, self.capture_seconds = 0, 0.0
        self._graphs: OrderedDict[tuple[object, ...], Graph] = OrderedDict()
        self._out = fused.embedding.new_zeros(0)  # what replays write, shared by all graphs
        self._lock = threading.RLock()

    def forward(self, ids: Tensor, cache: SlotCache, keep: int) -> Tensor:
        """See `FusedDecoder.forward`. A prompt, which is read with few of its logits asked for, is read eagerly."""
        rows, width = ids.shape
        if self.notice is not None or width - keep > 1 or rows * width > MOST_TOKENS:
            return self.fused.forward(ids, cache, keep)
        stack, lengths = self.fused.stack(cache), cache.lengths
        end = min(length_bucket(max(lengths) + width), stack.shape[3])
        given = upload(lengths, stack.device)
        with self._lock, self.backend.ordered():
            graph = self._graph(ids, given, stack, end)
            if graph is not None:
                graph.replay()
                return graph.out[:, width - keep :].clone()  # the next replay writes over it
        return self.fused.forward(ids, cache, keep)

    def read(self, ids: Tensor, cache: SlotCache, asked: Asked) -> Read:
        """See `FusedDecoder.read`. Trees, hidden states and the first layers alone are read eagerly."""
        if asked == Asked(asked.keep):
            return Read(self.forward(ids, cache, asked.keep), {})
        return self.fused.read(ids, cache, asked)

    def _graph(self, ids: Tensor, lengths: Tensor, stack: Tensor, end: int) -> Graph | None:
        """The graph with its inputs filled in. None where it cannot be captured."""
        rows, width = ids.shape
        key = (rows, width, end, stack.data_ptr(), stack.shape, stack.stride())
        graph = self._graphs.get(key)
        if graph is not None:
            graph.ids.copy_(ids)
            graph.lengths.copy_(lengths)
            self._graphs.move_to_end(key)
            return graph
        try:
            # From here on the new graph's inputs hold what this step reads, so that warming up writes its very keys.
            graph = self._capture(ids.clone(), lengths.clone(), stack, end)
        except torch.OutOfMemoryError:
            raise  # says nothing of whether graphs can be captured here
        except RuntimeError as error:
            why = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            self.notice = Notice(
                "CUDA graphs are off, which makes decoding slower and changes nothing else: "
                f"capturing one failed ({why})", "no_graphs", why=why,
            )  # fmt: skip
            warnings.warn(self.notice, RuntimeWarning, stacklevel=2)
            self._graphs.clear()
            return None
        self._graphs[key] = graph
        while len(self._graphs) > self.most_graphs:
            self._graphs.popitem(last=False)
        return graph

    def _capture(self, ids: Tensor, lengths: Tensor, stack: Tensor, end: int) -> Graph:
        start = time.perf_counter()
        out, rotations = self._output(ids), self.fused.rotations_to(end)
        replay = self.backend.capture(lambda: out.copy_(self.fused.forward_static(ids, lengths, stack, end, rotations)))
        self.captures += 1
        self.capture_seconds += time.perf_counter() - start
        return Graph(replay, ids, lengths, out, (stack, rotations))

    def _output(self, ids: Tensor) -> Tensor:
        """[rows, width, V] of the shared output. Graphs made with a smaller one keep that."""
        rows, width = ids.shape
        vocab = self.fused.vocab_size
        need = rows * width * vocab
        if self._out.numel() < need:
            self._out = self._out.new_empty(max(need, 2 * self._out.numel()))
        return self._out[:need].view(rows, width, vocab)

    def _forget(self, buffer: Tensor) -> None:
        with self._lock:
            for key in [k for k, graph in self._graphs.items() if same_memory(graph.kept[0], buffer)]:
                del self._graphs[key]


def graphed(fused: FusedDecoder | None, device: torch.device) -> GraphedDecoder | None:
    """The graphs of a fused model on an NVIDIA GPU; None for any other, and where SPECSCOPE_CUDA_GRAPHS is 0."""
    wanted = device.type == "cuda" and torch.version.hip is None and os.environ.get("SPECSCOPE_CUDA_GRAPHS") != "0"
    return GraphedDecoder(fused, CudaGraphs(device)) if fused is not None and wanted else None
