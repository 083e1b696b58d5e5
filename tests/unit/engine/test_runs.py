"""The run store in SQLite: its contract, where it lies, and every refusal in one sentence."""

import os
import platform
import sqlite3
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

pytest.register_assert_rewrite("helpers.run_store_contract")
from helpers.run_store_contract import HERE, RUN, RunStoreContract, counts  # noqa: E402

from engine import EngineError  # noqa: E402
from engine.runs import RunStore, connection, hardware_hash, holder  # noqa: E402
from engine.runs.place import default_place, place_of  # noqa: E402


class TestSqlite(RunStoreContract):
    @pytest.fixture
    def url(self, tmp_path):
        return f"sqlite:///{tmp_path / 'new' / 'folder' / 'runs.db'}"


@pytest.fixture
def no_url(monkeypatch):
    monkeypatch.delenv("SPECSCOPE_DATABASE_URL", raising=False)
    return monkeypatch


def test_by_default_the_store_is_one_file_in_the_users_data_folder(no_url, tmp_path):
    no_url.delenv("SPECSCOPE_DATA", raising=False)
    no_url.setenv("XDG_DATA_HOME", str(tmp_path))
    place = default_place()
    assert place.is_sqlite
    assert place.file.name == "runs.db"
    if sys.platform == "linux":
        assert place.file == tmp_path / "specscope" / "runs.db"


def test_specscope_data_moves_it_and_the_url_goes_before_both(no_url, tmp_path):
    no_url.setenv("SPECSCOPE_DATA", str(tmp_path / "böyle %41 #1 ?x @y"))
    assert RunStore().place == str(tmp_path / "böyle %41 #1 ?x @y" / "runs.db")
    assert (tmp_path / "böyle %41 #1 ?x @y" / "runs.db").is_file()
    no_url.setenv("SPECSCOPE_DATABASE_URL", f"  sqlite:///{tmp_path}/other.db ")
    assert RunStore().place == f"{tmp_path}/other.db"
    no_url.setenv("SPECSCOPE_DATABASE_URL", "")
    assert RunStore().place.endswith("runs.db")


def test_a_store_is_one_file_when_nobody_has_it_open(tmp_path):
    RunStore(f"sqlite:///{tmp_path}/runs.db").save("bench", **RUN)
    assert os.listdir(tmp_path) == ["runs.db"]


def test_a_process_is_told_from_a_later_one_of_its_number_and_one_elsewhere_by_its_last_write(monkeypatch):
    now, mine = datetime.now(UTC), holder.this_process()
    parent = {**mine, "pid": os.getppid(), "started": holder._started(os.getppid())}
    assert not holder.held_elsewhere(mine, now)
    assert holder.held_elsewhere(parent, now - timedelta(days=1)), "a point may take its time"
    assert holder.held_elsewhere({**parent, "started": None}, now)
    assert not holder.held_elsewhere({**parent, "pid": 2**22 + 1, "started": None}, now)
    if parent["started"]:
        assert not holder.held_elsewhere({**parent, "started": "1"}, now)
    far = {**parent, "host": "another"}
    assert holder.held_elsewhere(far, now - timedelta(seconds=50))
    assert not holder.held_elsewhere(far, now - timedelta(seconds=70))
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)  # ended, and not yet collected
    if parent["started"]:
        assert holder._started(child) is None
    os.waitpid(child, 0)
    assert platform.node() not in str(mine)


def test_the_hardware_hash_names_the_machine_and_not_its_software():
    same = {**HERE, "python": "3.13", "versions": {}, "threads": 9, "platform": "other kernel", "device": "cuda:1"}
    assert hardware_hash(same) == hardware_hash(HERE)
    for part, value in (("cpu", "B"), ("cpu_count", 3), ("gpu", "NVIDIA H100"), ("machine", "aarch64")):
        assert hardware_hash({**HERE, part: value}) != hardware_hash(HERE)
    assert hardware_hash(HERE) == "9eb7522138c6", "stored hashes must be found by later releases"


def test_without_an_environment_the_run_is_this_machines(tmp_path):
    run = RunStore(f"sqlite:///{tmp_path}/runs.db").save("bench", settings={}, pair={"device": "cpu"})
    assert run.environment["cpu"]
    assert run.versions["torch"]
    assert run.hardware == hardware_hash(run.environment)


# -- refusals

SECRET = "hunter2hunter2"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("/tmp/runs.db", "cannot be read; it looks like sqlite:////"),
        ("runs", "cannot be read"),
        (f"postgresql:{SECRET}", "cannot be read"),
        (f"postgresql://u:{SECRET}@host:port/db", "cannot be read"),
        (f"postgresql://u:x@{SECRET}@host/db", "write it as %40"),
        (f"mysql://u:{SECRET}@host/db", "kept in SQLite or PostgreSQL"),
        (f"https://u:{SECRET}@host/db", "kept in SQLite or PostgreSQL"),
        ("sqlite+aiosqlite:////tmp/x.db", "kept in SQLite or PostgreSQL"),
        ("sqlite://", "in memory would be lost"),
        ("sqlite:///:memory:", "in memory would be lost"),
        ("sqlite:///x.db?mode=ro", "holds a path and nothing else"),
        ("sqlite://host/x.db", "holds a path and nothing else"),
        ("sqlite:////tmp/a\0b.db", "U+0000"),
    ],
)
def test_an_odd_url_is_one_sentence_without_what_it_held(url, says):
    with pytest.raises(EngineError) as refused:
        RunStore(url)
    assert says in str(refused.value)
    assert SECRET not in str(refused.value)
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://ada:{SECRET}@127.0.0.1:1/db",
        f"postgres://ada:{SECRET}@127.0.0.1:1/db",
        f"postgresql+psycopg2://ada:{SECRET}@127.0.0.1:1/db",
        f"postgresql://ada@127.0.0.1:1/db?password={SECRET}",
        f"postgresql://ada:{SECRET}@no-such-host.invalid/db?connect_timeout=3",
        f"postgresql://ada:{SECRET}@/db?host=/no/such/folder",
        f"postgresql://ada:{SECRET}@127.0.0.1:1/db?no_such_option={SECRET}",
    ],
)
def test_a_server_that_cannot_be_reached_is_one_sentence_without_the_password(url):
    pytest.importorskip("psycopg")
    with pytest.raises(EngineError) as refused:
        RunStore(url)
    said = str(refused.value)
    assert "cannot be used" in said
    assert "SPECSCOPE_DATABASE_URL" in said
    assert SECRET not in said
    assert SECRET not in repr(place_of(url))
    assert "\n" not in said


def test_a_missing_driver_is_one_sentence_with_the_command(monkeypatch):
    for name in [n for n in sys.modules if n.partition(".")[0] == "psycopg"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(EngineError, match=r"psycopg 3: pip install 'specscope\[postgres\]'"):
        RunStore(f"postgresql://ada:{SECRET}@127.0.0.1:1/db")


def test_a_tilde_that_stands_for_nobody_is_one_sentence(no_url):
    no_url.setenv("SPECSCOPE_DATA", "~no-such-user-here/x")
    with pytest.raises(EngineError, match="~ stands for no user"):
        RunStore()


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(EngineError, match=r"cannot be made .*; set SPECSCOPE_DATA"):
        RunStore(f"sqlite:///{tmp_path}/file/runs.db")


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder that not even root may write to")
def test_a_folder_that_cannot_be_written_is_one_sentence():
    with pytest.raises(EngineError, match="cannot be written"):
        RunStore("sqlite:////proc/self/runs.db")


def test_a_folder_in_place_of_the_file_is_one_sentence(tmp_path):
    with pytest.raises(EngineError, match="is a folder; name a file in it"):
        RunStore(f"sqlite:///{tmp_path}")


@pytest.mark.parametrize("content", [b"this is a letter and no database " * 50, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_file_that_is_no_database_is_one_sentence_and_left_alone(tmp_path, content):
    (tmp_path / "runs.db").write_bytes(content)
    with pytest.raises(EngineError, match=r"damaged or no run store .*; move it away"):
        RunStore(f"sqlite:///{tmp_path}/runs.db")
    assert (tmp_path / "runs.db").read_bytes() == content


def test_a_store_whose_middle_was_overwritten_is_one_sentence(tmp_path):
    file = tmp_path / "runs.db"
    store = RunStore(f"sqlite:///{file}")
    for n in range(50):
        store.save("bench", document={"x": "y" * 1000, "n": n}, **RUN)
    data = file.read_bytes()
    file.write_bytes(data[:4096] + b"\xa5" * (len(data) - 4096))
    with pytest.raises(EngineError, match="damaged"):
        RunStore(f"sqlite:///{file}").runs()


def test_a_value_that_was_tampered_with_is_one_sentence(tmp_path):
    store = RunStore(f"sqlite:///{tmp_path}/runs.db")
    run = store.save("bench", document={}, measurements={"a": 1}, traces={"t": {}}, **RUN)
    with sqlite3.connect(tmp_path / "runs.db") as raw:
        raw.execute("UPDATE specscope_runs SET document = '{'")
        raw.execute("UPDATE specscope_measurements SET payload = 'x'")
        raw.execute("UPDATE specscope_traces SET data = x'00'")
    for read in (store.document, store.measurements, store.export, lambda r: store.trace(r, "t")):
        with pytest.raises(EngineError, match="in the run store is damaged"):
            read(run.id)


def test_a_store_that_another_process_holds_for_too_long_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(connection, "BUSY_S", 0.2)
    store = RunStore(f"sqlite:///{tmp_path}/runs.db")
    holder = sqlite3.connect(tmp_path / "runs.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(EngineError, match="held by another process"):
        store.save("bench", **RUN)
    assert store.runs() == [], "readers do not wait for a writer"
    holder.execute("COMMIT")
    holder.close()
    assert store.save("bench", **RUN)


def test_a_full_disk_is_one_sentence_and_the_store_stays_whole(tmp_path, monkeypatch):
    store = RunStore(f"sqlite:///{tmp_path}/runs.db")
    store.save("bench", **RUN)
    before = connection._on_connect

    def small(raw, record):
        before(raw, record)
        raw.execute("PRAGMA max_page_count = 20")

    monkeypatch.setattr(connection, "_on_connect", small)
    full = RunStore(f"sqlite:///{tmp_path}/runs.db")
    with pytest.raises(EngineError, match="disk is full"):
        full.save("bench", document={"x": "y" * 200_000}, measurements={"a": 1}, **RUN)
    assert counts(store) == (1, 0, 0)


def test_other_tables_in_the_same_file_are_left_alone(tmp_path):
    with sqlite3.connect(tmp_path / "runs.db") as raw:
        raw.execute("CREATE TABLE runs (mine TEXT)")
        raw.execute("INSERT INTO runs VALUES ('mine')")
    RunStore(f"sqlite:///{tmp_path}/runs.db").save("bench", **RUN)
    with sqlite3.connect(tmp_path / "runs.db") as raw:
        assert raw.execute("SELECT * FROM runs").fetchall() == [("mine",)]
