"""Counts how often the host reads a tensor's values: on a GPU, each time it would wait for the device."""

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten
# Each needs a value, or a size that depends on values, on the host.
READS = {aten._local_scalar_dense, aten.nonzero, aten.masked_select, aten.equal, aten.is_nonzero}
METHODS = {torch.Tensor.tolist, torch.Tensor.numpy, torch.Tensor.cpu, torch.Tensor.__array__}


def numbers(args):
    return [isinstance(a, int | float) or (isinstance(a, torch.Tensor) and a.ndim == 0) for a in args]


class HostReads:
    """`with HostReads() as reads: ...; reads.count`. item, bool, int and float all end in one op; tolist and numpy
    are seen as they are called."""

    def __enter__(self):
        self.count = 0
        outer = self

        class Ops(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                outer.count += func.overloadpacket in READS
                if func.overloadpacket is aten.index and any(i is not None and i.dtype == torch.bool for i in args[1]):
                    outer.count += 1  # a mask's size
                if func.overloadpacket is aten.where and any(numbers(args)):
                    outer.count += 1  # copies the number to the device, and waits
                return func(*args, **(kwargs or {}))

        class Methods(TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                outer.count += func in METHODS
                return func(*args, **(kwargs or {}))

        self.modes = [Methods(), Ops()]
        for mode in self.modes:
            mode.__enter__()
        return self

    def __exit__(self, *error):
        for mode in reversed(self.modes):
            mode.__exit__(*error)
