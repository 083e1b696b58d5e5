"""The cache of converted weights: whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.weights import first_line, loaded, refused

import engine.weights as weights
from engine.weights import _store


def test_a_gguf_is_converted_once_wherever_it_lies_and_again_when_it_changes(
    cache: Path, tmp_path: Path, gguf_file: Path
) -> None:
    first = weights.resolve(str(gguf_file))
    phases: list[str] = []
    moved = Path(shutil.copy2(gguf_file, tmp_path / "tiny.gguf"))
    assert weights.is_cached(str(moved)) == first
    assert weights.resolve(str(moved), progress=lambda phase, done, total: phases.append(phase)) == first
    assert phases == []
    os.utime(moved, ns=(1, 1))
    assert weights.is_cached(str(moved)) is None


def test_progress_counts_up_to_a_total_that_is_the_size_of_the_weights(
    cache: Path, gguf_file: Path, model: Any
) -> None:
    seen: list[tuple[str, int, int | None]] = []
    weights.resolve(str(gguf_file), progress=lambda *call: seen.append(call))
    total = 4 * sum(p.numel() for p in model.parameters())
    convert = [done for phase, done, _ in seen if phase == "convert"]
    assert convert == sorted(convert)
    assert {whole for _, _, whole in seen} == {total}
    assert seen[-1] == ("save", total, total)


@pytest.mark.parametrize("spoil", ["cut weights", "no manifest", "cut tokenizer", "lost tokenizer", "older format"])
def test_a_damaged_cache_is_built_again(cache: Path, gguf_file: Path, spoil: str) -> None:
    folder = weights.resolve(str(gguf_file))
    if spoil == "cut weights":
        os.truncate(folder / "model.safetensors", 1000)
    elif spoil == "cut tokenizer":
        os.truncate(folder / "tokenizer.json", 1000)
    elif spoil == "lost tokenizer":
        (folder / "tokenizer.json").unlink()
    elif spoil == "no manifest":
        (folder / _store.MANIFEST).unlink()
    else:
        manifest = json.loads((folder / _store.MANIFEST).read_text())
        (folder / _store.MANIFEST).write_text(json.dumps({**manifest, "format": 0}))
    assert weights.is_cached(str(gguf_file)) is None
    assert weights.resolve(str(gguf_file)) == folder
    assert loaded(folder)[0].config.hidden_size == 64
    assert list((cache / "partial").iterdir()) == []


CHILD = textwrap.dedent(
    """
    import pathlib, sys, time
    import engine.weights as weights
    gate, seen = pathlib.Path(sys.argv[2]), set()
    def watch(phase, done, total):
        if phase not in seen:
            seen.add(phase)
            print(phase, flush=True)
            while phase == "convert" and not gate.exists():
                time.sleep(0.05)
    print(weights.resolve(sys.argv[1], progress=watch), flush=True)
    """
)


@contextlib.contextmanager
def child(gguf_file: Path, gate: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that resolves the file, and stays in the middle of the conversion until `gate` exists."""
    command = [sys.executable, "-c", CHILD, str(gguf_file), str(gate)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()  # a failed assertion must not leave it waiting


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_conversion_that_is_stopped_half_way_leaves_nothing_that_passes_for_whole(
    cache: Path, tmp_path: Path, gguf_file: Path, how: signal.Signals
) -> None:
    with child(gguf_file, tmp_path / "never") as process:
        assert first_line(process) == "convert"
        process.send_signal(how)
        assert process.wait(600) != 0
    assert (list((cache / "partial").iterdir()) != []) is (how == signal.SIGKILL)
    assert weights.is_cached(str(gguf_file)) is None
    assert list((cache / "models").iterdir()) == []
    folder = weights.resolve(str(gguf_file))  # the dead one's lock does not block
    assert loaded(folder)[0].config.hidden_size == 64
    assert list((cache / "partial").iterdir()) == []


def test_of_two_processes_one_converts_and_the_other_waits_and_uses_it(
    cache: Path, tmp_path: Path, gguf_file: Path
) -> None:
    gate = tmp_path / "gate"
    with child(gguf_file, gate) as one:
        assert first_line(one) == "convert"
        with child(gguf_file, gate) as two:
            assert first_line(two) == "wait"
            gate.touch()
            second = two.communicate(timeout=600)[0].split()
        first = one.communicate(timeout=600)[0].split()
    folder = str(weights.is_cached(str(gguf_file)))
    assert first == ["save", folder]
    assert second == [folder]


def test_what_a_killed_run_left_of_another_model_is_cleaned_too(cache: Path, gguf_file: Path) -> None:
    (cache / "partial" / "other" / "x").mkdir(parents=True)
    weights.resolve(str(gguf_file))
    assert list((cache / "partial").iterdir()) == []


def test_a_disk_that_is_too_full_is_said_with_needed_and_free_bytes_before_starting(
    cache: Path, gguf_file: Path, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")(10**9, 10**9 - 4321, 4321)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    message = refused(gguf_file)
    assert "4,321 free" in message
    needed = 4 * sum(p.numel() for p in model.parameters()) + (64 << 20)
    assert f"{needed:,} bytes needed" in message
    monkeypatch.undo()
    monkeypatch.setenv("SPECSCOPE_CACHE", str(cache))
    assert weights.resolve(str(gguf_file)).is_dir()


@pytest.mark.parametrize(
    "error",
    [OSError(errno.ENOSPC, "No space left on device"), RuntimeError("I/O: No space left on device (os error 28)")],
)
def test_a_disk_that_fills_up_half_way_leaves_nothing_and_the_next_try_works(
    cache: Path, gguf_file: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    import safetensors.torch

    def full(*_: Any, **__: Any) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(safetensors.torch, "save_file", full)
        message = refused(gguf_file)
    assert "bytes needed" in message
    assert "free" in message
    assert list((cache / "partial").iterdir()) == []
    assert weights.resolve(str(gguf_file)).is_dir()


def test_a_cache_that_cannot_be_written_is_said_and_names_the_setting(
    tmp_path: Path, gguf_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("SPECSCOPE_CACHE", str(tmp_path / "file"))
    assert "SPECSCOPE_CACHE" in refused(gguf_file)


@pytest.mark.parametrize(
    "place", ["/proc/x", "/dev/null/x", "/tmp/" + "x" * 5000, "~nobody-here/x"], ids=["proc", "file", "long", "nobody"]
)
def test_every_place_that_cannot_be_a_cache_is_met_with_the_same_advice(
    gguf_file: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv("SPECSCOPE_CACHE", place)
    message = refused(gguf_file)
    assert "SPECSCOPE_CACHE" in message
    assert "[Errno" not in message
    assert len(message) < 400
