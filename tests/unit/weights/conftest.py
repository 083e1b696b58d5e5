"""A tiny model as a file, as a folder, and a cache of its own for each test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers.weights import tiny_llama, write_gguf

from engine.weights import _gguf
from engine.weights._gguf_file import open_gguf


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "cache"
    monkeypatch.setenv("SPECSCOPE_CACHE", str(root))
    monkeypatch.delenv("SPECSCOPE_EMBEDDED_WHEEL", raising=False)
    return root


@pytest.fixture(scope="module")
def model() -> Any:
    return tiny_llama()


@pytest.fixture(scope="module")
def gguf_file(tmp_path_factory: pytest.TempPathFactory, model: Any) -> Path:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf", model)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, gguf_file: Path) -> Path:
    """A whole converted folder, to be copied and spoiled."""
    out = tmp_path_factory.mktemp("model")
    _gguf.convert(gguf_file, open_gguf(gguf_file), out, lambda *_: None)
    return out
