"""Folders of a home that earlier versions called by other names: they are renamed; what is in them stays as it is."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

# The name that an earlier version gave a folder, and the one that it has now.
_RENAMED = {
    "late": "missed_rows",
    "missed": "needed_slack",
    "plans": "batch_manifests",
    "selected": "selection",
}
# Where earlier versions had the pairs and results of all joins: each query's are under its kind now.
_JOINS = "joins"


def rename_older_folders(root: Path, kinds: Mapping[str, str]) -> None:
    """Rename what is there under an earlier name; ``kinds``: the kind of each registered query by the query's name.

    Whoever comes second finds nothing left to rename.

    Raises:
        OSError: where the home cannot be written.
    """
    for older, name in _RENAMED.items():
        _rename(root / older, root / name)
    for query, kind in kinds.items():
        _rename(root / _JOINS / query, root / kind / query)


def _rename(older: Path, folder: Path) -> None:
    if not older.is_dir() or folder.exists():
        return
    folder.parent.mkdir(exist_ok=True)
    with suppress(FileNotFoundError):
        older.rename(folder)
