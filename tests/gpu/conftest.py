"""Everything in this folder needs an NVIDIA GPU. Without one it is skipped; `make gpu` runs it where there is one."""

import gc
from pathlib import Path

import pytest
import torch

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before `-m gpu` chooses
def pytest_collection_modifyitems(items):
    absent = None if torch.cuda.is_available() else pytest.mark.skip(reason="needs an NVIDIA GPU; torch sees none here")
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("gpu")
            if absent:
                item.add_marker(absent)


@pytest.fixture(scope="session")
def device():
    return torch.device("cuda", 0)  # CUDA_VISIBLE_DEVICES says which one that is


@pytest.fixture(autouse=True)
def memory_given_back():
    yield
    if torch.cuda.is_available():
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
