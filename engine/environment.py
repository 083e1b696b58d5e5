"""What a measurement was made on: hardware and versions, so that a number can be told from its twin elsewhere."""

import functools
import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import torch


@functools.cache
def _fixed() -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cpu": _cpu_name(),
        "cpu_count": os.cpu_count(),
        "versions": {name: _version(name) for name in ("specscope", "torch", "transformers", "tokenizers")},
    }


def environment(device: str = "cpu") -> dict[str, Any]:
    """JSON-ready: cpu, gpu (None on CPU), threads, versions. Holds no user name, host name or path."""
    gpu = torch.cuda.get_device_name(device) if device.startswith("cuda") else None
    return {**_fixed(), "device": device, "gpu": gpu, "threads": torch.get_num_threads()}


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
