"""Models by hub id, in the hub client's cache and by its settings (HF_HOME, HF_ENDPOINT, HF_TOKEN)."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from typing import Any

from engine.weights._common import Progress, WeightsError, shown, silent
from engine.weights._folder import check_config, check_files, check_folder, read_config

ALLOWED = ["*.json", "*.safetensors", "*.txt", "*.model", "*.jinja"]
IGNORED = [
    "*/*",
    "consolidated*",
]  # other formats of the same weights, in sub-folders or under Mistral's names


def cached(repo: str) -> Path | None:
    """The cached snapshot of a hub id if it is whole; asks no network."""
    import huggingface_hub

    try:
        folder = Path(
            huggingface_hub.snapshot_download(
                repo, local_files_only=True, allow_patterns=ALLOWED, ignore_patterns=IGNORED
            )
        )
        if not (folder / "config.json").is_file():
            return None
        check_files(folder, repo)  # older clients return a snapshot that was cut short
    except (OSError, ValueError):
        return None
    return folder


def download(repo: str, progress: Progress, *, trust_remote_code: bool = False) -> Path:
    """The snapshot folder. The config comes first, so that an unfit model costs no gigabytes."""
    if (found := cached(repo)) is None:
        folder = _snapshot(repo, ["config.json"], silent)
        if (folder / "config.json").is_file():
            check_config(read_config(folder, repo), repo, trust_remote_code=trust_remote_code)
        found = _snapshot(repo, [*ALLOWED, "*.py"] if trust_remote_code else ALLOWED, progress)
    check_folder(found, repo, trust_remote_code=trust_remote_code)
    return found


def _snapshot(repo: str, patterns: list[str], progress: Progress) -> Path:
    import huggingface_hub
    from huggingface_hub import errors

    try:
        return Path(
            huggingface_hub.snapshot_download(
                repo, allow_patterns=patterns, ignore_patterns=IGNORED, tqdm_class=_bar(progress)
            )
        )
    except errors.GatedRepoError as error:
        raise WeightsError(
            f"{repo} is gated: accept its licence on the hub and set HF_TOKEN, or use another model."
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise WeightsError(f"The hub has no model {repo} (or it is private); check the id, or set HF_TOKEN.") from error
    except errors.HFValidationError as error:
        raise WeightsError(f"{shown(repo)} is not a valid hub id; write it as organisation/name.") from error
    except Exception as error:  # the client's own, httpx's, requests' in older releases, OSError
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise WeightsError(_full(repo)) from error
        raise WeightsError(
            f'{repo} is not cached and no model hub answers; use "embedded" or a local folder, or set '
            "HF_ENDPOINT to a mirror that you can reach (and unset HF_HUB_OFFLINE)."
        ) from error


def _full(repo: str) -> str:
    from huggingface_hub import constants

    root = Path(constants.HF_HUB_CACHE)
    free = shutil.disk_usage(root).free if root.exists() else 0
    return f"The disk of {root} is full ({free:,} bytes free) for {repo}; make room, or set HF_HOME."


def _bar(progress: Progress) -> Any:
    """A tqdm that shows nothing and tells `progress` the bytes."""
    from tqdm.auto import tqdm  # type: ignore[import-untyped]

    class Bar(tqdm):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self._bytes = kwargs.get("unit") == "B"
            self._seen = 0
            kwargs.pop("name", None)
            super().__init__(*args, **{**kwargs, "disable": True})

        def update(self, n: float | None = 1) -> bool | None:
            self._seen += int(n or 0)
            if self._bytes:
                progress("download", self._seen, int(self.total) if self.total else None)
            return None

    return Bar
