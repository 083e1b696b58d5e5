"""Hub ids: what is fetched, and what is said when it is not."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.weights import copied, refused

import engine.weights as weights


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[dict[str, Any]]:
    """A hub whose every model is `folder`, and the calls that reached it."""
    import huggingface_hub

    calls: list[dict[str, Any]] = []

    def snapshot_download(repo: str, **options: Any) -> str:
        if options.get("local_files_only") and repo not in {call["repo"] for call in calls}:
            raise huggingface_hub.errors.LocalEntryNotFoundError("nothing cached")
        calls.append({"repo": repo, **options})
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    return calls


def test_a_hub_id_takes_safetensors_and_text_files_only_and_is_cached_after(
    cache: Path, hub: list[dict[str, Any]], folder: Path
) -> None:
    assert weights.is_cached("org/model") is None
    assert weights.resolve("org/model") == folder
    patterns = {pattern for call in hub for pattern in call["allow_patterns"]}
    assert patterns == {"config.json", "*.json", "*.safetensors", "*.txt", "*.model", "*.jinja"}
    assert weights.is_cached("org/model") == folder


def test_a_preset_fetches_its_target_and_its_draft(cache: Path, hub: list[dict[str, Any]], folder: Path) -> None:
    assert weights.fetch("qwen2.5-7b") == folder
    assert {call["repo"] for call in hub} == {"Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-0.5B-Instruct"}
    entry = {entry.name: entry for entry in weights.list_models()}["qwen2.5-7b"]
    assert (entry.cached, entry.path) == (True, folder)
    assert entry.size_bytes == 2 * sum(file.stat().st_size for file in folder.iterdir())


def test_an_unfit_hub_model_is_refused_before_its_weights_are_fetched(
    cache: Path, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    bert = copied(folder, tmp_path / "b", model_type="bert", architectures=["BertForMaskedLM"])
    (bert / "model.safetensors").unlink()
    asked: list[Any] = []

    def snapshot_download(repo: str, **options: Any) -> str:
        asked.append(options.get("allow_patterns"))
        return str(bert)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    assert "not a decoder-only language model" in refused("org/bert")
    assert asked[1:] == [["config.json"]]


@pytest.mark.parametrize("failure", ["offline", "gated", "missing", "full"])
def test_every_refusal_of_a_hub_names_the_id_and_a_way_on(
    cache: Path, monkeypatch: pytest.MonkeyPatch, failure: str
) -> None:
    import httpx
    import huggingface_hub
    from huggingface_hub import errors

    response = httpx.Response(403, request=httpx.Request("GET", "http://hub.invalid"))
    raised, says = {
        "offline": (httpx.ConnectError("no route"), '"embedded"'),
        "gated": (errors.GatedRepoError("gated", response=response), "HF_TOKEN"),
        "missing": (errors.RepositoryNotFoundError("404", response=response), "check the id"),
        "full": (OSError(errno.ENOSPC, "No space left on device"), "HF_HOME"),
    }[failure]

    def snapshot_download(repo: str, **options: Any) -> str:
        if options.get("local_files_only"):
            raise errors.LocalEntryNotFoundError("nothing cached")
        raise raised

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    message = refused("org/model")
    assert "org/model" in message
    assert says in message
    assert "hub.invalid" not in message


def test_a_hub_that_does_not_answer_is_said_within_seconds(cache: Path, tmp_path: Path) -> None:
    """The real client, against an address where nothing listens."""
    code = "import engine.weights as w\ntry: w.resolve('org/model')\nexcept w.WeightsError as e: print(e)"
    environment = {**os.environ, "HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path / "hf")}
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=600, check=True
    )
    assert "org/model is not cached and no model hub answers" in run.stdout
    assert "HF_ENDPOINT" in run.stdout
