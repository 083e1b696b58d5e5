"""Which arms there are, and how a user names them."""

from collections.abc import Sequence
from importlib import metadata

from engine.bench.peers.base import PeerArm
from engine.bench.peers.flashspec import flashspec_arms
from engine.bench.peers.llama_cpp import llama_cpp_arms
from engine.bench.peers.openvino import openvino_arms
from engine.bench.peers.ours import our_arms
from engine.bench.peers.report import Skipped
from engine.bench.peers.setup import PeerSetup
from engine.bench.peers.transformers_arm import BASELINE, StockModels, transformers_arms
from engine.bench.peers.vllm_server import vllm_arms
from engine.errors import EngineError

PACKAGES = ("llama-cpp-python", "openvino-genai", "openvino", "flashspec")


def all_arms(setup: PeerSetup) -> list[PeerArm]:
    """Every arm, whether it can run here or not. Loads nothing."""
    stock = StockModels(setup)
    return [
        *transformers_arms(setup, stock),
        *our_arms(setup),
        *llama_cpp_arms(setup),
        *openvino_arms(setup),
        *flashspec_arms(setup, stock),
        *vllm_arms(setup),
    ]


def choose(
    arms: Sequence[PeerArm], only: Sequence[str] = (), skip: Sequence[str] = ()
) -> tuple[list[PeerArm], list[Skipped]]:
    """The arms that the user wants, and the rest with the reason. A word names every arm that begins with it, so
    "llama.cpp" is both of its arms. The baseline runs beside --only too, unless it is skipped by name. Raises
    EngineError for a word that names no arm."""
    for word in (*only, *skip):
        if not any(_named(arm, word) for arm in arms):
            raise EngineError(f"no arm is called {word!r}: choose from {', '.join(arm.name for arm in arms)}")
    wanted: list[PeerArm] = []
    left: list[Skipped] = []
    for arm in arms:
        if any(_named(arm, word) for word in skip):
            left.append(Skipped(arm.name, "left out with --skip"))
        elif only and arm.name != BASELINE and not any(_named(arm, word) for word in only):
            left.append(Skipped(arm.name, "not among those given with --only"))
        else:
            wanted.append(arm)
    if not wanted:
        raise EngineError("no arm is left to run; ask for fewer with --skip")
    return wanted, left


def peer_versions() -> dict[str, str]:
    """Versions of the peers that are installed."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def _named(arm: PeerArm, word: str) -> bool:
    return arm.name.lower().startswith(" ".join(word.lower().split()))
