"""`import engine` gives every public name, and costs only what is asked of it."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import engine

SOURCE = Path(engine.__file__).read_text(encoding="utf-8")


def _typed_imports() -> dict[str, str]:
    """What a type checker sees: name -> module, as `module:original` where it is imported under another name."""
    block = next(node for node in ast.parse(SOURCE).body if isinstance(node, ast.If))
    return {
        (a.asname or a.name): f"{node.module}:{a.name}" if a.asname else str(node.module)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for a in node.names
    }


def test_what_is_loaded_is_what_the_type_checker_was_told():
    assert _typed_imports() == engine._HOME
    assert sorted(engine._HOME) == sorted(engine.__all__)


@pytest.mark.parametrize("name", engine.__all__)
def test_every_public_name_can_be_had_and_is_listed(name):
    module, _, original = engine._HOME[name].partition(":")
    assert getattr(engine, name) is getattr(sys.modules[module], original or name)
    assert name in dir(engine)


def test_a_name_that_there_is_not_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'speculate'"):
        engine.speculate  # noqa: B018


@pytest.mark.parametrize(
    "command",
    [
        ["prices", "list"],
        ["claims"],
        ["cost", "--help"],
        ["tco", "start_up"],
        ["project", "--model", "Llama-3.1-8B", "--gpu", "H100 SXM"],
    ],
    ids=lambda words: words[0],
)
def test_what_needs_no_model_loads_no_torch(command, tmp_path):
    told = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys; sys.argv = ['specscope', *{command!r}]\n"
            "from app.cli import main\n"
            "try: main()\n"
            "except SystemExit as end: assert not end.code, end.code\n"
            "loaded = [name for name in ('torch', 'transformers', 'gradio') if name in sys.modules]\n"
            "assert not loaded, loaded\n",
        ],
        capture_output=True,
        text=True,
        env={"PATH": "", "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)},
    )
    assert told.returncode == 0, told.stderr
