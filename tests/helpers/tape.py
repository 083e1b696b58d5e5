"""A CUDA graph on a CPU: what ran while it was captured is run again, op by op, on the very same memory.

Python is not run again. A length that was taken into a Python number, a tensor that has moved since and a result that
was handed on by another tensor all stay what they were at the capture, as they do in a graph.
"""

from contextlib import nullcontext

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

WARM_UPS = 2


class Tape(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.ops = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        self.ops.append((func, args, kwargs or {}, out))
        return out

    def replay(self):
        for func, args, kwargs, out in self.ops:
            if func._schema.is_mutable:
                func(*args, **kwargs)
                continue
            places = {t.untyped_storage().data_ptr() for t in tensors((args, kwargs))}
            made = tensors(out)
            if all(t.untyped_storage().data_ptr() in places for t in made):
                continue  # views of what it was given
            for old, new in zip(made, tensors(func(*args, **kwargs)), strict=True):
                old.copy_(new)


def tensors(tree):
    """Packed weights have no storage to ask for, and no operation writes them."""
    return [t for t in tree_leaves(tree) if isinstance(t, torch.Tensor) and t.layout is torch.strided]


class TapeBackend:
    """`engine.gpu.Backend`. fails: captures from this one on raise, as a full GPU would."""

    def __init__(self, fails=None):
        self.fails, self.captured, self.replayed = fails, 0, 0

    def capture(self, run):
        if self.fails is not None and self.captured >= self.fails:
            raise RuntimeError("operation not permitted\nwhen stream is capturing")
        self.captured += 1
        for _ in range(WARM_UPS):
            run()
        with Tape() as tape:
            run()

        def replay():
            self.replayed += 1
            tape.replay()

        return replay

    def ordered(self):
        return nullcontext()
