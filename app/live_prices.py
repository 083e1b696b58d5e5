"""List prices of today from the catalogue of gpuhunt, an optional package, over the network. The only prices that are
not a file's; they are shown as a difference, and count only when somebody takes them over.

The catalogue has whole-instance prices in USD, on demand and spot, and nothing reserved.
"""

import logging
import os
import re
import socket
from collections import defaultdict
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from typing import Any, Protocol

from pydantic import ValidationError

from engine import EngineError
from pricing import PriceRow, PriceTable
from pricing.faults import messages

SOURCE = "https://github.com/dstackai/gpuhunt"
TIMEOUT_S = 20.0
# Those whose catalogue is collected for all; gpuhunt asks the others live, with the user's own account.
PROVIDERS = {
    "aws": "AWS", "azure": "Azure", "cloudrift": "CloudRift", "gcp": "GCP", "lambdalabs": "Lambda", "nebius": "Nebius",
    "oci": "OCI", "runpod": "RunPod", "verda": "Verda",
}  # fmt: skip
_ZONE = re.compile(r"(.+-.+[0-9])-[a-z]")  # us-central1-a
_NAMES = {"H100NVL": "H100 NVL", "H200NVL": "H200 NVL"}


class Catalogue(Protocol):
    """What is used of `gpuhunt.Catalog`."""

    def query(self, *, provider: str, min_gpu_count: int) -> list[Any]: ...


@dataclass(frozen=True)
class LivePrices:
    """rows: one price an instance, region and commitment. left_out: one sentence an offer that is no price of ours."""

    table: PriceTable
    left_out: tuple[str, ...]
    instances: frozenset[str]

    def covers(self, row: PriceRow) -> bool:
        """Would the catalogue list this price if it still held? It calls some instances by other names than providers
        do: what it does not name at all may be there all the same."""
        mine = {other.provider for other in self.table}
        listed = row.provider in mine and row.commitment in ("on_demand", "spot") and row.currency == "USD"
        return listed and not row.is_contract and (row.source_url == SOURCE or row.instance in self.instances)


def read_live(
    provider: str,
    known: PriceTable,
    *,
    gpus: Collection[str] | None = None,
    catalogue: Catalogue | None = None,
    today: date | None = None,
) -> LivePrices:
    """The prices of one provider (our name or gpuhunt's), dated `today` (default: the local day).

    gpus: names such as "H100" or "L40S"; default: those that `known` has. An instance that `known` has keeps the name
    of its GPU there: the catalogue says H100 where a provider says H100 SXM. catalogue: default gpuhunt's, over the
    network, or from the folder that GPUHUNT_CATALOG_DIR names. Raises EngineError with one sentence: not installed, no
    network, no such provider, nothing found.
    """
    name = _provider(provider)
    day = today or date.today()
    held = catalogue if catalogue is not None else _gpuhunt()
    with _quietly():
        try:
            items = list(held.query(provider=name, min_gpu_count=1))
        except Exception as error:  # whatever the package, the network and its files raise
            raise _unreadable(error) from error
    families = {_family(gpu) for gpu in (gpus if gpus is not None else (row.gpu for row in known))}
    wanted = [item for item in items if item.gpu_name and _family(_gpu(item.gpu_name)) in families]
    if not wanted:
        asked = f" of {', '.join(sorted(families))}" if items else ""
        raise EngineError(
            f"the live catalogue has no price of {PROVIDERS[name]}{asked}; try another provider, or again later"
        )
    rows, left_out = _rows(wanted, PROVIDERS[name], known, day, _version(held, name))
    instances = frozenset(str(item.instance_name) for item in wanted)
    return LivePrices(PriceTable.of(rows, f"gpuhunt catalogue of {PROVIDERS[name]}"), tuple(left_out), instances)


def _rows(
    items: list[Any], provider: str, known: PriceTable, day: date, version: str
) -> tuple[list[PriceRow], list[str]]:
    names = {(row.instance, row.gpu_count): row for row in known if row.provider == provider}
    # Zones of a region have one price as a rule; where they have not, each zone keeps its own.
    offers: dict[tuple[str, int, str, bool], dict[str, Any]] = defaultdict(dict)
    left_out: list[str] = []
    for item in items:
        zone = str(item.location)
        match = _ZONE.fullmatch(zone) if provider == "GCP" else None
        at = offers[str(item.instance_name), int(item.gpu_count), match[1] if match else zone, bool(item.spot)]
        first = at.setdefault(zone, item)
        if first.price != item.price:
            left_out.append(f"{item.instance_name} in {zone} has two prices, {first.price} and {item.price}")
    rows: list[PriceRow] = []
    for (instance, count, region, spot), zones in offers.items():
        one = len({item.price for item in zones.values()}) == 1
        for zone, item in [(region, next(iter(zones.values())))] if one else zones.items():
            same = names.get((instance, count))
            given = {
                "provider": provider,
                "instance": instance,
                "gpu": same.gpu if same else _gpu(item.gpu_name),
                "gpu_count": count,
                "gpu_mem_gb": same.gpu_mem_gb if same else item.gpu_memory,
                "usd_per_hour": item.price,
                "commitment": "spot" if spot else "on_demand",
                "region": zone,
                "as_of": day,
                "source_url": SOURCE,
                "evidence": "B",
                "notes": f"gpuhunt catalogue{version}",
            }
            try:
                rows.append(PriceRow.model_validate(given))
            except ValidationError as error:
                left_out.append(f"{instance} in {zone}: {messages(error)[0][1]}")
    return rows, left_out


def _provider(named: str) -> str:
    for key, name in PROVIDERS.items():
        if named.strip().lower() in (key, name.lower()):
            return key
    raise EngineError(f"the live catalogue has no provider {named!r}; it has {', '.join(PROVIDERS.values())}")


def _gpuhunt() -> Any:
    try:
        import gpuhunt
    except ImportError:
        raise EngineError(
            "live prices need gpuhunt, which is not installed; pip install 'specscope[live-prices]', or import a file"
        ) from None
    catalogue = gpuhunt.Catalog(auto_reload=False)  # else every query goes to the network
    if not os.environ.get("GPUHUNT_CATALOG_DIR"):
        with _quietly():
            try:
                catalogue.load()
            except Exception as error:
                raise _unreadable(error) from error
    return catalogue


def _unreadable(error: Exception) -> EngineError:
    cause: BaseException = error.__cause__ or error
    said = " ".join(str(cause).split()) or type(cause).__name__
    return EngineError(f"the live catalogue cannot be read ({said}); it needs a network, or import a file instead")


def _version(catalogue: Any, provider: str) -> str:
    held = getattr(catalogue, "catalog", {}).get(provider)
    return f" {held.version}" if held is not None else ""


def _gpu(name: str) -> str:
    return _NAMES.get(name, name)


def _family(gpu: str) -> str:
    """A100 of "A100 SXM", "A100 PCIe" and "a100"."""
    return gpu.split()[0].upper() if gpu.split() else ""


@contextmanager
def _quietly() -> Iterator[None]:
    """A limit on every wait, which gpuhunt sets none for; its tracebacks of single providers are not for the user."""
    log = logging.getLogger("gpuhunt")
    level, seconds = log.level, socket.getdefaulttimeout()
    log.setLevel(logging.CRITICAL + 1)
    socket.setdefaulttimeout(TIMEOUT_S)
    try:
        yield
    finally:
        socket.setdefaulttimeout(seconds)
        log.setLevel(level)
