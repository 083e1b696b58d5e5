"""specscope beside other engines: the same prompt ids and token counts, on one machine, in one run."""

from engine.bench.peers.base import PeerArm, PeerRun
from engine.bench.peers.measure import measure_peers
from engine.bench.peers.ours import our_settings
from engine.bench.peers.report import ArmLabel, PeerReport, PeerResult, Sample, Skipped
from engine.bench.peers.roster import all_arms, choose, peer_versions
from engine.bench.peers.setup import PeerSetup, encode_prompts, make_setup
from engine.bench.peers.transformers_arm import BASELINE

__all__ = [
    "BASELINE",
    "ArmLabel",
    "PeerArm",
    "PeerReport",
    "PeerResult",
    "PeerRun",
    "PeerSetup",
    "Sample",
    "Skipped",
    "all_arms",
    "choose",
    "encode_prompts",
    "make_setup",
    "measure_peers",
    "our_settings",
    "peer_versions",
]
