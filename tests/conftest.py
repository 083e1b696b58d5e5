"""Shared by every test."""

import os

import pytest
from hypothesis import settings

# A slow machine is no counterexample; where nobody watches, the same examples each time.
settings.register_profile("specscope", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("specscope")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# Before torch is imported, here and in every process that a test starts. Tiny tensors are slower with a pool, and two
# threads beside another busy process wait for each other at every layer. `python tests/bars.py` uses them all.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session", autouse=True)
def own_run_store(tmp_path_factory):
    """No test, and no process that one starts, writes into the user's own run store."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECSCOPE_DATA", str(tmp_path_factory.mktemp("data")))
        patch.delenv("SPECSCOPE_DATABASE_URL", raising=False)
        yield


@pytest.fixture
def one_thread():
    """Tiny tensors run several times faster without a thread pool."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def embedded_pair():
    """The real embedded weights (tests that use it carry the mark `weights`)."""
    import engine

    return engine.load_pair("embedded")
