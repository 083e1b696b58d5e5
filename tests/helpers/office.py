"""LibreOffice without a window: what it makes of a workbook."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

# All is worked out anew on loading: values that were stored beside the formulas prove nothing.
_SETTINGS = """<?xml version="1.0" encoding="UTF-8"?>
<oor:items xmlns:oor="http://openoffice.org/2001/registry" xmlns:xs="http://www.w3.org/2001/XMLSchema"
 xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
<item oor:path="/org.openoffice.Office.Calc/Formula/Load"><prop oor:name="OOXMLRecalcMode" oor:op="fuse">
<value>0</value></prop></item>
</oor:items>
"""


def soffice() -> str:
    """Its program. Skips the test where there is none, or fails it where one is required."""
    found = shutil.which("soffice") or shutil.which("libreoffice")
    if found is None:
        told = "LibreOffice is not installed: apt-get install --no-install-recommends libreoffice-calc"
        if os.environ.get("SPECSCOPE_REQUIRE_LIBREOFFICE"):
            pytest.fail(told)
        pytest.skip(told)
    return found


def convert(files: list[Path], to: str, folder: Path) -> list[Path]:
    """Each file in another format, recalculated, in `folder`/out."""
    profile = folder / "profile" / "user"
    profile.mkdir(parents=True, exist_ok=True)
    (profile / "registrymodifications.xcu").write_text(_SETTINGS, encoding="utf-8")
    out = folder / "out"
    command = [
        soffice(), f"-env:UserInstallation={profile.parent.as_uri()}", "--headless", "--norestore", "--convert-to", to,
        "--outdir", str(out), *map(str, files),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
    made = [out / f"{file.stem}.{to.split(':')[0]}" for file in files]
    assert all(file.exists() for file in made), done.stdout + done.stderr
    return made
