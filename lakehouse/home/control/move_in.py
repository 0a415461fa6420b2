"""State that a home kept elsewhere, moved into its control store, once, by the first command that may write.

    runs/<job>-<stream>.json    outcomes of jobs, as earlier versions kept them
    tokens.json                 hashes of tokens, likewise
    delivered_alarms.json       which changes of alarms were delivered, likewise
    control.sqlite              the rows of a home that is now told of a database

A row that is there already is newer and stays. Killed on the way, the next command goes on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from lakehouse.home.control.database import ControlUnreachable
from lakehouse.home.control.local import LocalStore
from lakehouse.home.control.schema import ROWS
from lakehouse.home.control.store import FILE, Store, store_of
from lakehouse.home.damaged import naming

_RUNS, _TOKENS, _DELIVERED = "runs", "tokens.json", "delivered_alarms.json"


def move_in(root: Path) -> None:
    """Move what a home kept elsewhere into its control store; nothing where it cannot be written now.

    Cost: four looks at whether a file or folder is there, for a home that has nothing to move.
    """
    if not any((root / name).exists() for name in (_RUNS, _TOKENS, _DELIVERED, FILE)):
        return
    with suppress(OSError, ControlUnreachable):
        store = store_of(root)
        if (root / _RUNS).is_dir():
            _move_outcomes(root / _RUNS, store)
        if (root / _TOKENS).exists():
            _move_tokens(root / _TOKENS, store)
        if (root / _DELIVERED).exists():
            _move_delivered(root / _DELIVERED, store)
        if (root / FILE).exists() and not isinstance(store, LocalStore):
            _move_rows(LocalStore(root / FILE), store)


def _move_outcomes(folder: Path, store: Store) -> None:
    for path in sorted(folder.glob("[!.]*.json")):
        _add(store, "tidemark_outcomes", _outcome_of(path))
        path.unlink()
    with suppress(OSError):
        # Drafts of processes that were killed.
        for path in folder.glob(".*"):
            path.unlink()
        folder.rmdir()


def _outcome_of(path: Path) -> dict[str, str]:
    """Return the row of a file; one that cannot be read is an outcome that failed."""
    job, _, stream = path.stem.rpartition("-")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise ValueError(f"found {type(content).__name__}")
    except ValueError as error:
        content = {"ok": False, "error": f"{path}: expected the outcome of a job as JSON: {error}"}
    blank = {"job": job, "stream": stream, "ok": False, "started": "", "ended": "", "seconds": 0.0}
    found = blank | {"figures": {}, "error": None} | content
    # Names of streams may have what parts the two in a file's name.
    return {"job": found["job"], "stream": found["stream"], "outcome": json.dumps(found)}


def _move_tokens(path: Path, store: Store) -> None:
    with naming(path):
        for token in json.loads(path.read_text(encoding="utf-8"))["tokens"]:
            lists = {name: token[name] and json.dumps(token[name]) for name in ("scopes", "streams")}
            row = {name: (token | lists)[name] for name in ROWS["tidemark_tokens"]}
            _add(store, "tidemark_tokens", row)
    path.unlink()


def _move_delivered(path: Path, store: Store) -> None:
    with naming(path):
        for query, (batch, repair) in json.loads(path.read_text(encoding="utf-8")).items():
            _add(store, "tidemark_delivered", {"query": query, "batch": batch, "repair": repair})
    path.with_suffix(".lock").unlink(missing_ok=True)
    path.unlink()


def _move_rows(file: LocalStore, store: Store) -> None:
    for table, columns in ROWS.items():
        for values in _rows_of(file, table, columns):
            _add(store, table, values)
    file.path.unlink()


def _rows_of(file: LocalStore, table: str, columns: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    for row in file.rows(f"SELECT {', '.join(columns)} FROM {table} WHERE home = :home"):
        yield dict(zip(columns, row, strict=True))


def _add(store: Store, table: str, values: dict[str, Any]) -> None:
    names = ", ".join(f":{name}" for name in values)
    store.change(f"INSERT INTO {table} VALUES (:home, {names}) ON CONFLICT DO NOTHING", **values)
