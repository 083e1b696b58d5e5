"""A file is written whole or not at all, keeps its permissions and its links, and a failure names it."""

import os
import resource
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from app.whole_file import write_whole
from engine import EngineError


def entries(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_that_is_new_and_one_that_was_there_hold_what_was_written(tmp_path):
    for content in (b"first", b"2nd\r\n"):
        write_whole(tmp_path / "out.csv", content)
        assert (tmp_path / "out.csv").read_bytes() == content
    assert entries(tmp_path) == ["out.csv"]


def test_a_write_that_fails_half_way_leaves_the_file_as_it_was(tmp_path):
    """In a process of its own, which may write 4 KB a file and no more."""
    held = tmp_path / "out.csv"
    held.write_bytes(b"old")
    script = (
        "import sys; from pathlib import Path; from app.whole_file import write_whole\n"
        "from engine import EngineError\n"
        "try: write_whole(Path(sys.argv[1]), b'x' * 100_000)\n"
        "except EngineError as error: print(error)\n"
    )

    def small() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    done = subprocess.run(
        [sys.executable, "-B", "-c", script, str(held)], capture_output=True, text=True, preexec_fn=small
    )
    assert done.stdout.strip() == (f"{held} could not be written (File too large); what it held before is untouched"), (
        done.stderr
    )
    assert held.read_bytes() == b"old"
    assert entries(tmp_path) == ["out.csv"]


def test_a_folder_that_is_not_there_is_told_with_the_files_name(tmp_path):
    with pytest.raises(EngineError, match=r"none.out\.csv could not be written \(No such file"):
        write_whole(tmp_path / "none" / "out.csv", b"x")


def test_permissions_stay_and_new_files_follow_the_umask(tmp_path):
    held = tmp_path / "out.csv"
    held.write_bytes(b"old")
    held.chmod(0o640)
    write_whole(held, b"new")
    assert stat.S_IMODE(held.stat().st_mode) == 0o640
    umask = os.umask(0o027)
    try:
        write_whole(tmp_path / "fresh.csv", b"new")
    finally:
        os.umask(umask)
    assert stat.S_IMODE((tmp_path / "fresh.csv").stat().st_mode) == 0o640


def test_a_link_stays_a_link_and_what_it_leads_to_is_written(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "real.csv").write_bytes(b"old")
    link = tmp_path / "out.csv"
    link.symlink_to("far/real.csv")
    write_whole(link, b"new")
    assert link.is_symlink()
    assert (tmp_path / "far" / "real.csv").read_bytes() == b"new"
    dangling = tmp_path / "dangling.csv"
    dangling.symlink_to("far/fresh.csv")
    write_whole(dangling, b"new")
    assert (tmp_path / "far" / "fresh.csv").read_bytes() == b"new"


def test_a_name_as_long_as_names_can_be_is_written(tmp_path):
    path = tmp_path / ("n" * 251 + ".csv")
    write_whole(path, b"x")
    assert path.read_bytes() == b"x"


def test_a_device_is_written_to_and_not_replaced():
    write_whole(Path("/dev/null"), b"x")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
