"""`pricing` stands by itself: whoever audits it reads it and these libraries, and nothing else of ours."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import pricing

ALLOWED = {"pandas", "pydantic", "babel", "numpy_financial", "xlsxwriter", "openpyxl", "pricing"}
FILES = sorted(Path(pricing.__file__).parent.rglob("*.py"))


def imported(source):
    """The top-level packages that a module names, wherever in it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module.split(".")[0]


def foreign(source):
    return {name for name in imported(source) if name not in ALLOWED and name not in sys.stdlib_module_names}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_module_imports_the_standard_library_and_the_few_that_are_named(file):
    assert foreign(file.read_text(encoding="utf-8")) == set()


@pytest.mark.parametrize(
    "module", ["pricing", "pricing.scenario_file", "pricing.export.tco_csv", "pricing.export.html"]
)
def test_only_a_workbook_loads_what_writes_workbooks(module):
    """In a process of its own, as tests before this one have loaded it."""
    check = f"import sys, {module}; sys.exit('xlsxwriter' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


def test_the_check_sees_an_import_inside_a_function():
    assert foreign("def f():\n    import reportlab.pdfgen\n    from numpy import pi\n") == {"reportlab", "numpy"}
