"""The files of a Delta table, chosen by the log's statistics.

Files are those of the version that was newest when the table was opened: what comes later does not show.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.table_commits import arrow_schema, open_table


@dataclass(frozen=True)
class TableRows:
    """The files of one version of a table, each with its rows and the extremes that the log knows.

    ``id``: what tells the table from one that is made anew in its place.
    """

    table: Location
    schema: pa.Schema
    files: Sequence[Mapping[str, Any]]
    version: int = -1
    id: str = ""

    @classmethod
    def of(cls, table: Location) -> TableRows:
        """Return what the newest version of a table holds."""
        known = open_table(table)
        log = pa.table(known.get_add_actions(flatten=True))
        return cls(table, arrow_schema(known), log.to_pylist(), known.version(), str(known.metadata().id))

    def between(self, column: str, low: int, high: int) -> TableRows:
        """Return the files that may hold rows with a value of a column in between."""
        return replace(self, files=self._between(column, low, high))

    def named(self, names: Collection[str]) -> TableRows:
        """Return the files of some names."""
        return replace(self, files=[file for file in self.files if file["path"] in names])

    @property
    def names(self) -> list[str]:
        """The files as the log names them."""
        return [file["path"] for file in self.files]

    @property
    def paths(self) -> list[Path]:
        """Paths of the files."""
        return [self.table / file["path"] for file in self.files]

    @property
    def count(self) -> int:
        """Number of rows that the files hold."""
        return sum(file["num_records"] or 0 for file in self.files)

    def count_through(self, batch: int, held: Mapping[str, int]) -> int:
        """Return how many rows there are of batches up to one; ``held`` says it of files that may hold later ones."""
        total = 0
        for file in self.files:
            high = file.get("max.batch")
            if high is not None and high <= batch:
                total += file["num_records"]
            else:
                total += held.get(file["path"], 0)
        return total

    def _between(self, column: str, low: int, high: int) -> list[Mapping[str, Any]]:
        return [file for file in self.files if _may_hold(file, column, low, high)]


def _may_hold(file: Mapping[str, Any], column: str, low: int, high: int) -> bool:
    least, most = file.get(f"min.{column}"), file.get(f"max.{column}")
    return least is None or most is None or (most >= low and least <= high)
