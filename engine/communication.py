"""What GPUs that share a model say to each other: two all-reduces a layer, one behind attention, one behind the MLP."""

from __future__ import annotations

from engine.gpu_specs import GpuSpec

ALL_REDUCES_PER_LAYER = 2
ACTIVATION_BYTES = 2.0  # BF16 sums, whatever the weights are
# Assumed where the table has no link: PCIe Gen4 x16, both directions together.
DEFAULT_LINK_GB_S = 64.0


def link_gb_s(gpu: GpuSpec) -> float:
    """GB/s of a GPU's links, both directions together; the assumed PCIe where the table has none."""
    return DEFAULT_LINK_GB_S if gpu.link_gb_s is None else gpu.link_gb_s


def all_reduce_s(size_bytes: float, gpu: GpuSpec, gpus: int, latency_s: float) -> float:
    """Seconds until all of `gpus` hold the sum of `size_bytes` from each; 0 for one GPU.

    A ring sends 2 (n - 1) / n of the bytes out of each GPU, over one direction of its links, which is half of what data
    sheets print (Patarasuk and Yuan, "Bandwidth optimal all-reduce", JPDC 2009); latency_s comes on top.
    """
    if gpus == 1:
        return 0.0
    sent = 2 * (gpus - 1) / gpus * size_bytes
    return latency_s + sent / (link_gb_s(gpu) / 2 * 1e9)


def forward_communication_s(
    layers: int, hidden: int, tokens: float, gpu: GpuSpec, gpus: int, latency_s: float
) -> float:
    """Seconds that one forward of `tokens` tokens, split over `gpus`, spends in all-reduces of tokens x hidden."""
    size = tokens * hidden * ACTIVATION_BYTES
    return layers * ALL_REDUCES_PER_LAYER * all_reduce_s(size, gpu, gpus, latency_s)
