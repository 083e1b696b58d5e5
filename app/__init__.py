"""The Gradio app. `create_app` is imported on first use, so that `import app` costs nothing."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from app.main import create_app, launch

__all__ = ["create_app", "launch"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from app import main

        return getattr(main, name)
    raise AttributeError(f"module 'app' has no attribute {name!r}")
