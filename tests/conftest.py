"""Shared by every test."""

import os

import pytest

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
