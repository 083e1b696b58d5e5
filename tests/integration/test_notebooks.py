"""The notebooks run top to bottom, carry no stored output, and ask no other host for anything."""

import json
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_there_are_two_notebooks():
    assert [p.name for p in NOTEBOOKS] == ["01_first_look.ipynb", "02_tune_k.ipynb"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_no_output_is_stored(path):
    cells = nbformat.read(path, as_version=4).cells
    assert all(not c.get("outputs") and c.get("execution_count") is None for c in cells if c.cell_type == "code")


@pytest.mark.weights
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_it_runs_top_to_bottom(path):
    book = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(FOLDER)}}
    NotebookClient(book, timeout=1200, startup_timeout=600, kernel_name="python3", resources=resources).execute()
    outputs = json.dumps([c.get("outputs") for c in book.cells])
    assert "cdn." not in outputs, "a figure would be fetched from elsewhere"
    if path.stem == "01_first_look":
        assert "projected" in outputs
        assert "line-through" in outputs  # a rejected proposal is shown as one
    else:
        assert "application/vnd.plotly.v1+json" in outputs
        assert "best K here" in outputs or "plain decoding (K = 0)" in outputs
