"""Joules, where the platform counts them: RAPL through Linux powercap on a CPU, NVML on an NVIDIA GPU.

Most virtual machines show neither. Then there is no meter, and no number.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

POWERCAP = Path("/sys/class/powercap")


@dataclass(frozen=True, slots=True)
class Meter:
    """read: joules since some fixed moment; never falls. source: what is counted, in words. resolution_s: how often
    the platform counts; shorter work cannot be told from what ran before it."""

    read: Callable[[], float]
    source: str
    resolution_s: float


def find_meter(device: torch.device, powercap: Path = POWERCAP) -> Meter | None:
    """The meter of what a run on `device` makes work, or None where the platform has none that may be read."""
    return _nvml(device) if device.type == "cuda" else _rapl(powercap)


class _Counter:
    """One RAPL package: microjoules in a file that starts again from 0 at its range."""

    def __init__(self, zone: Path) -> None:
        self.energy = zone / "energy_uj"
        self.range = int((zone / "max_energy_range_uj").read_text())
        self.last = int(self.energy.read_text())
        self.turns = 0

    def joules(self) -> float:
        now = int(self.energy.read_text())
        self.turns += now < self.last
        self.last = now
        return (self.turns * self.range + now) / 1e6


def _rapl(root: Path) -> Meter | None:
    """All packages together: a run cannot be told from what else the machine does."""
    try:
        # intel-rapl:0 is a package; intel-rapl:0:1 is a part of it and would count twice.
        zones = sorted(z for z in root.glob("intel-rapl:*") if z.name.count(":") == 1 and _is_package(z))
        counters = [_Counter(zone) for zone in zones]
    except (OSError, ValueError):
        return None  # no such folder, or readable by root alone
    if not counters:
        return None
    return Meter(
        lambda: sum(c.joules() for c in counters), "RAPL, all CPU packages: the whole machine's work counts", 1e-3
    )


def _is_package(zone: Path) -> bool:
    return (zone / "name").read_text().strip().startswith("package")


def _nvml(device: torch.device) -> Meter | None:
    try:
        import pynvml

        pynvml.nvmlInit()
        uuid = str(torch.cuda.get_device_properties(device).uuid)
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid if uuid.startswith("GPU-") else f"GPU-{uuid}")
        pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
    except Exception:
        return None
    read = pynvml.nvmlDeviceGetTotalEnergyConsumption
    return Meter(lambda: read(handle) / 1e3, "NVML, the whole GPU", 0.1)
