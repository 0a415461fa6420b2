"""Location of a home's tables: in its folder, or on an object store.

    <home>/tables.json    {"path"}: written with the first table on a store; whoever is given the home finds them by it

Leases, and whatever else belongs to a table and is none of its files, stay in the home, at the path that the table
would have there.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakehouse.config.store_address import is_remote
from lakehouse.storage.atomic_files import write_json
from lakehouse.storage.damaged import naming
from lakehouse.storage.stores.store_access import engine_options
from lakehouse.storage.stores.store_path import Location, StorePath

if TYPE_CHECKING:
    from deltalake import DeltaTable

NAME = "tables.json"


def recorded(root: Path) -> str | None:
    """Return on which store the tables of a home are, None for in its folder or for none yet.

    Raises DamagedFile when what the home says of it cannot be read.
    """
    try:
        with naming(root / NAME):
            return str(json.loads((root / NAME).read_text("utf-8"))["path"])
    except (FileNotFoundError, NotADirectoryError):
        return None


def moved_tables(root: Path, path: str | None) -> str | None:
    """Return where a home has its tables where that is not what its configuration says, None where all is well."""
    there = recorded(root)
    if there is not None:
        return None if there == path else there
    has_own = path is not None and any(root.glob("ledger/*/_delta_log"))
    return "no path" if has_own else None


def place_at(text: str) -> Location:
    """Return a table, or a file of one, by its address: a path or a URL."""
    return StorePath(text) if is_remote(text) else Path(text)


def options_of(table: Location) -> dict[str, str] | None:
    """Return how deltalake reaches a table; None for one in a folder."""
    return engine_options(table.address) if isinstance(table, StorePath) else None


def filesystem_of(table: Location) -> Any:
    """Return how DuckDB reads the files of a table; None for one in a folder."""
    if not isinstance(table, StorePath):
        return None
    # Few homes have tables on a store.
    from lakehouse.storage.stores.store_files import duckdb_filesystem

    return duckdb_filesystem(table.address.scheme)


def delta_table(table: Location) -> DeltaTable:
    """Return the newest version of a table, to be looked at.

    Raises deltalake.exceptions.TableNotFoundError when there is none.
    """
    from deltalake import DeltaTable

    return DeltaTable(str(table), storage_options=options_of(table))


def record(root: Path, tables: StorePath) -> None:
    """Write into a home on which store its tables are, before there is a first one."""
    if recorded(root) is None:
        write_json(root / NAME, {"path": str(tables)}, durable=True)
