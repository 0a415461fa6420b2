"""Which partial nodes came to a rollup table after a batch: read from the commits of its log.

Nodes come by appends, each marked with its stream and last batch, as Delta keeps them for its writers. Other commits
fold or move what is there, or are corrections, which whoever asks knows of.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

Actions = list[dict[str, Any]]


def nodes_since(table: Path, stream: str, after: int, through: int) -> list[Path] | None:
    """Return the files of partial nodes of the batches after one, up to and with another, oldest commit first.

    None where the log does not tell any more, or a file is gone. Cost: the commits since, newest first.
    """
    found: list[Path] = []
    last, oldest = after, -1
    for number, actions in _backwards(table):
        oldest = number
        batch = _appended(actions, f"tidemark-rollup-{stream}")
        if batch is None:
            continue
        if batch <= after:
            break
        if any("remove" in action for action in actions):
            return None
        last = max(last, batch)
        found = [table / unquote(action["add"]["path"]) for action in actions if "add" in action] + found
    else:
        if oldest != 0:
            return None
    return found if last == through and all(path.exists() for path in found) else None


def _appended(actions: Actions, writer: str) -> int | None:
    """Return the last batch that a commit of this writer appended, None of any other commit."""
    marks = (action["txn"] for action in actions if "txn" in action)
    return next((int(mark["version"]) for mark in marks if mark["appId"] == writer), None)


def _backwards(table: Path) -> Iterator[tuple[int, Actions]]:
    """Yield each commit's number and what it did, newest first, as far back as the log has every one."""
    log = table / "_delta_log"
    number = max((int(path.stem) for path in log.glob("*.json") if path.stem.isdigit()), default=-1)
    while number >= 0 and (commit := log / f"{number:020d}.json").exists():
        lines = commit.read_text(encoding="utf-8").splitlines()
        yield number, [json.loads(line) for line in lines if line]
        number -= 1
