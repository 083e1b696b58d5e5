"""Shared by every test."""

import os

import pytest
from hypothesis import settings

# A slow machine is no counterexample; where nobody watches, the same examples each time.
settings.register_profile("specscope", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("specscope")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


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
