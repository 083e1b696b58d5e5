"""Prints how fast random models in the shapes of Llama 1B, 8B and 70B decode, against the memory roofline, plain and
speculative with scripted acceptance; see helpers/gpu_bench.py for what is timed. Nothing is asserted of any speed."""

import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from helpers import gpu_bench
from helpers.gpu_bench import BATCHES, CONTEXT, KS, RATE, Budget, Point, extrapolated, measure_grid, sliced, tables
from helpers.synthetic import config_of, layer_bytes, random_decoder

from engine.environment import environment
from engine.gpu import CudaGraphs, GraphedDecoder
from engine.linear import PlainLinear
from engine.linear_cuda import CAPABILITY, make_fp8

# Seconds for all measuring in this file: with the tests beside it and the making of the models, under eight minutes.
SECONDS = float(os.environ.get("SPECSCOPE_GPU_SECONDS", "300"))
REPORT = Path(os.environ.get("SPECSCOPE_GPU_REPORT", "build/gpu-report.json"))
# Of the memory that is free: what weights, keys and values may take. The rest is for activations, logits and graphs.
USABLE = 0.8
CASES = (("1B", "bf16", 0.15), ("8B", "bf16", 0.2), ("8B", "fp8", 0.2), ("70B", "fp8", 0.45))


@dataclass
class Report:
    device: torch.device
    sheet: object = None
    copied: float = 0.0
    models: list = field(default_factory=list)
    draft: dict = field(default_factory=dict)

    @property
    def quoted(self):
        return self.sheet.mem_bw_tb_s * 1e12

    def write(self):
        REPORT.parent.mkdir(parents=True, exist_ok=True)
        document = {
            "schema": "specscope.gpu", "version": 1, "environment": environment(str(self.device)),
            "device": torch.cuda.get_device_name(self.device), "context": CONTEXT, "scripted_acceptance": RATE,
            "bandwidth_bytes_per_s": {"data_sheet": self.sheet and self.quoted, "copied": self.copied},
            "models": self.models,
        }  # fmt: skip
        REPORT.write_text(json.dumps(document, indent=1, allow_nan=False), encoding="utf-8")


@pytest.fixture(scope="module")
def report(device):
    memory = torch.cuda.get_device_properties(device).total_memory
    found = Report(device, gpu_bench.spec_of(torch.cuda.get_device_name(device), memory))
    found.copied = gpu_bench.copied_bytes_per_second(device)
    sheet = f"{found.sheet.mem_bw_tb_s:.2f} TB/s on its data sheet" if found.sheet else "no data sheet known here"
    print(f"\n{torch.cuda.get_device_name(device)}: {sheet}, {found.copied / 1e12:.2f} TB/s in a copy")
    yield found
    print(f"written to {REPORT}")


@pytest.mark.parametrize(("shape", "weights", "share"), CASES, ids=lambda v: str(v))
def test_speed_against_the_memory_roofline(report, shape, weights, share):
    device = report.device
    if weights == "fp8" and torch.cuda.get_device_capability(device) < CAPABILITY:
        if shape != "70B":
            pytest.skip("this GPU does not multiply fp8")
        weights = "bf16"
    config = config_of(shape)
    whole = config.num_hidden_layers
    layers = fitting(config, weights, device)
    if not layers:
        pytest.skip(f"not one layer of the {shape} shape fits what is free of this GPU's memory")
    config.num_hidden_layers = layers
    start = time.monotonic()
    fused = random_decoder(config, make_fp8 if weights == "fp8" else PlainLinear, device, torch.bfloat16)
    decoder = GraphedDecoder(fused, CudaGraphs(device))
    torch.cuda.synchronize()
    made_s = time.monotonic() - start

    budget = Budget(share * SECONDS * (1 if layers == whole else 0.75))
    points = list(measure_grid(decoder, fused, budget))
    name = f"{shape} shape, {weights}"
    if layers < whole:
        points = carried(points, fused, device, whole, share * SECONDS * 0.25)
        name += f", EXTRAPOLATED from {layers} to {whole} layers"
    if shape == "1B":
        report.draft = {p.batch: p.forward_s for p in points if p.k == 0}

    bandwidth, source = (
        (report.sheet.mem_bw_tb_s * 1e12, "data sheet") if report.sheet else (report.copied, "as copied")
    )
    print("\n" + tables(name, points, bandwidth, source, {} if shape == "1B" else report.draft))
    wanted = len(KS) * len(BATCHES)
    if len(points) < wanted:
        print(f"{wanted - len(points)} of {wanted} points were left out: no memory or no time for them")
    print(f"{decoder.captures} graphs in {decoder.capture_seconds:.1f} s; the model was made in {made_s:.1f} s")
    report.models.append(
        {
            "shape": shape, "weights": weights, "layers_measured": layers, "layers": whole,
            "extrapolated": layers < whole, "notice": decoder.notice, "graphs": decoder.captures,
            "points": [p.as_dict() | {"roofline_share": p.roofline_share(bandwidth)} for p in points],
        }
    )  # fmt: skip
    report.write()
    assert points
    assert decoder.notice is None


def fitting(config, weights, device):
    """As many layers as fit beside embedding, head, and keys and values of the largest batch."""
    free, _ = torch.cuda.mem_get_info(device)
    size = 1 if weights == "fp8" else 2
    each = layer_bytes(config, size) + kept_keys(config)
    rest = (
        config.vocab_size * config.hidden_size * (2 + size) + 4 * max(BATCHES) * (max(KS) + 1) * config.vocab_size * 4
    )
    return max(0, min(config.num_hidden_layers, int((free * USABLE - rest) // each)))


def kept_keys(config):
    positions = 2 * CONTEXT  # the bucket above context and what the steps add
    return max(BATCHES) * positions * 2 * config.num_key_value_heads * config.head_dim * 2


def carried(points: list[Point], fused, device, whole, seconds):
    """Each point carried to all layers, by one measured without any; points without such a one are left out."""
    empty = sliced(fused, 0)
    budget, found = Budget(seconds), []
    without = {(p.batch, p.k): p for p in measure_grid(GraphedDecoder(empty, CudaGraphs(device)), empty, budget)}
    for point in points:
        if none := without.get((point.batch, point.k)):
            found.append(extrapolated(point, none, len(fused.layers), whole))
    return found
