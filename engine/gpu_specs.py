"""GPU data sheet figures, and which of them a name in a price list stands for."""

from __future__ import annotations

import csv
import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from engine.errors import EngineError

DEFAULT_SPECS = Path(__file__).parent / "data" / "gpu_specs.csv"
_REQUIRED = ("mem_gb", "mem_bw_tb_s", "bf16_dense_tflops", "tdp_w")
_OPTIONAL = ("fp8_dense_tflops", "fp4_dense_tflops", "link_gb_s")
_TEXT = ("gpu", "notes", "source", "link", "link_source")


@dataclass(frozen=True)
class GpuSpec:
    """Data sheet figures of one GPU, quoted: GB of 1e9 bytes, TB/s, dense (not sparse) TFLOPS, W.

    link: what joins it to the others of its server; link_gb_s: GB/s of all of a GPU's links, both directions together,
    as data sheets print it; None where it is not known.
    """

    name: str
    mem_gb: float
    mem_bw_tb_s: float
    bf16_dense_tflops: float
    fp8_dense_tflops: float | None
    fp4_dense_tflops: float | None
    tdp_w: float
    notes: str
    source: str
    link: str = ""
    link_gb_s: float | None = None
    link_source: str = ""


class SpecError(ValueError):
    """The GPU file cannot be used; the message names file, line and column."""


def load_gpu_specs(path: str | Path | None = None) -> dict[str, GpuSpec]:
    """GPU name -> figures, from the file that ships with the package or from one of the same columns.

    Raises SpecError on a missing column, a name used twice, a number that is blank where it is needed,
    zero, negative or not finite, and a missing source, the link's own included.
    """
    file = Path(path) if path is not None else DEFAULT_SPECS
    with file.open(encoding="utf-8-sig", newline="") as stream:
        reader = csv.DictReader(stream)
        missing = [c for c in (*_TEXT, *_REQUIRED, *_OPTIONAL) if c not in (reader.fieldnames or ())]
        if missing:
            raise SpecError(f"{file.name}, line 1: the column {missing[0]} is missing")
        specs: dict[str, GpuSpec] = {}
        for row in reader:
            where = f"{file.name}, line {reader.line_num}"
            name, source = (row["gpu"] or "").strip(), (row["source"] or "").strip()
            if not name or name in specs:
                raise SpecError(f"{where}, column gpu: {name!r} is blank or used twice")
            if not source:
                raise SpecError(f"{where}, column source: a figure without a source is not usable")
            link_source = (row["link_source"] or "").strip()
            if row["link_gb_s"] and not link_source:
                raise SpecError(f"{where}, column link_source: a figure without a source is not usable")
            figure = {
                column: _figure(row[column], f"{where}, column {column}")
                for column in (*_REQUIRED, *_OPTIONAL)
                if row[column] or column in _REQUIRED
            }
            specs[name] = GpuSpec(
                name=name,
                mem_gb=figure["mem_gb"],
                mem_bw_tb_s=figure["mem_bw_tb_s"],
                bf16_dense_tflops=figure["bf16_dense_tflops"],
                fp8_dense_tflops=figure.get("fp8_dense_tflops"),
                fp4_dense_tflops=figure.get("fp4_dense_tflops"),
                tdp_w=figure["tdp_w"],
                notes=(row["notes"] or "").strip(),
                source=source,
                link=(row["link"] or "").strip(),
                link_gb_s=figure.get("link_gb_s"),
                link_source=link_source,
            )
    return specs


def find_gpu(name: str, specs: Mapping[str, GpuSpec] | None = None) -> GpuSpec:
    """By its name or by a part that only one name has ("h200"). Raises EngineError that lists the near names."""
    table = load_gpu_specs() if specs is None else specs
    wanted = " ".join(name.casefold().split()).removeprefix("nvidia ")
    exact = [spec for key, spec in table.items() if key.casefold() == wanted]
    holding = [spec for key, spec in table.items() if wanted and wanted in key.casefold()]
    found = exact or holding
    if len(found) == 1:
        return found[0]
    if found:
        raise EngineError(f"{name!r} is several GPUs: {', '.join(spec.name for spec in found)}")
    by_key = {key.casefold(): key for key in table}
    close = [by_key[key] for key in difflib.get_close_matches(wanted, by_key, n=3, cutoff=0.4)]
    near = f"near it: {', '.join(close)}" if close else f"choose from {', '.join(table)}"
    raise EngineError(f"no GPU {name!r} in the table; {near}")


def _figure(text: str | None, where: str) -> float:
    try:
        value = float(text or "")
    except ValueError:
        raise SpecError(f"{where}: {text!r} is not a number") from None
    if not (math.isfinite(value) and value > 0):
        raise SpecError(f"{where}: {text!r} must be a finite number above 0")
    return value


class _PriceName(NamedTuple):
    name: str
    memories_gb: tuple[float, ...]
    spec: str


# How the price table calls what the data sheets call `spec`. One GPU is sold under several memory sizes
# (usable or physical).
_PRICE_NAMES = (
    _PriceName("a100 sxm", (40,), "A100 40GB SXM"),
    _PriceName("a100 sxm", (80,), "A100 80GB SXM"),
    _PriceName("a100 pcie", (40,), "A100 40GB PCIe"),
    _PriceName("a100 pcie", (80,), "A100 80GB PCIe"),
    _PriceName("h100 sxm", (80,), "H100 SXM"),
    _PriceName("h100 pcie", (80,), "H100 PCIe"),
    _PriceName("h100 nvl", (94,), "H100 NVL"),
    _PriceName("h200 sxm", (141,), "H200 SXM"),
    _PriceName("b200 sxm", (180, 192), "B200 SXM (HGX)"),
    _PriceName("b300 sxm", (262, 268, 288), "B300 SXM (HGX, Blackwell Ultra)"),
    _PriceName("gb200", (186,), "GB200 (per GPU)"),
    _PriceName("l40s", (48,), "L40S"),
    _PriceName("mi300x", (192,), "MI300X"),
)


def match_price_gpu(price_gpu_name: str, mem_gb: float | None) -> str | None:
    """The name in `load_gpu_specs()` for a GPU of the price table; None when it is not known for sure.

    Without `mem_gb` a name that stands for several GPUs ("A100 SXM" is a 40 GB and an 80 GB one) has no
    answer.
    """
    wanted = " ".join(price_gpu_name.casefold().split()).removeprefix("nvidia ")
    known_size = mem_gb is not None and not math.isnan(mem_gb)  # pandas hands an absent size over as NaN
    found = {
        entry.spec for entry in _PRICE_NAMES if entry.name == wanted and (not known_size or mem_gb in entry.memories_gb)
    }
    return found.pop() if len(found) == 1 else None
