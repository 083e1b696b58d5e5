"""Presets, and what lies in the cache."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from helpers.weights import refused

import engine.weights as weights
from engine.weights import PRESETS, WeightsError


def test_the_presets_pair_models_of_one_vocabulary_family() -> None:
    assert list(PRESETS) == ["embedded", "smollm2-1.7b", "qwen2.5-7b", "llama3.1-70b"]
    for preset in PRESETS.values():
        assert preset.licence
        if preset.draft is not None:
            assert preset.target.split("/")[0] == preset.draft.split("/")[0]


def test_the_list_shows_presets_and_converted_files_with_their_sizes(cache: Path, gguf_file: Path) -> None:
    assert [entry.name for entry in weights.list_models()] == list(PRESETS)
    assert not weights.list_models()[0].cached
    folder = weights.resolve(str(gguf_file))
    entry = weights.list_models()[-1]
    assert (entry.name, entry.source, entry.cached, entry.path) == (folder.name, str(gguf_file), True, folder)
    assert entry.size_bytes == sum(file.stat().st_size for file in folder.iterdir())
    assert weights.resolve(entry.name) == folder
    assert folder.name in refused(entry.name[:-1])


def test_asking_for_the_path_of_what_is_not_cached_says_how_to_fetch_it(cache: Path) -> None:
    with pytest.raises(WeightsError, match="specscope models fetch embedded"):
        weights.path("embedded")
    with pytest.raises(WeightsError, match='did you mean "embedded"'):
        weights.path("embeddd")


def test_the_cache_is_where_the_environment_says_or_in_the_users_own_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    import platformdirs

    monkeypatch.setenv("SPECSCOPE_CACHE", "~/elsewhere")
    assert weights.cache_dir() == Path.home() / "elsewhere"
    monkeypatch.delenv("SPECSCOPE_CACHE")
    assert weights.cache_dir() == platformdirs.user_cache_path("specscope", appauthor=False)


def test_this_package_alone_loads_neither_torch_nor_transformers() -> None:
    """`engine/__init__.py` is stood in for: what it loads is its own affair."""
    code = textwrap.dedent(
        """
        import importlib.util, sys, types
        engine = types.ModuleType("engine")
        engine.__path__ = importlib.util.find_spec("engine").submodule_search_locations
        sys.modules["engine"] = engine
        import engine.weights
        engine.weights.list_models()
        print([name for name in ("torch", "transformers", "gguf") if name in sys.modules])
        """
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True)
    assert run.stdout.strip() == "[]"
