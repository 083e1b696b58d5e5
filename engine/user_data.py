"""The user's data folder: runs and own prices are kept there."""

import os
from pathlib import Path

from engine.errors import EngineError


def data_dir() -> Path:
    """`SPECSCOPE_DATA`, else the user's data folder. EngineError where its ~ stands for nobody."""
    named = os.environ.get("SPECSCOPE_DATA")
    if named:
        try:
            return Path(named).expanduser().absolute()
        except RuntimeError:  # ~name, where no such user is
            shown = named if named.isprintable() else repr(named)[1:-1]
            raise EngineError(f"SPECSCOPE_DATA is {shown}, whose ~ stands for no user; correct it") from None
    import platformdirs

    return Path(platformdirs.user_data_dir("specscope", appauthor=False))
