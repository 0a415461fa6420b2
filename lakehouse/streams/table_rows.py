"""Rows of a Delta table by batch, read in Arrow: files that the log's statistics rule out are not opened.

Files are those of the version that was newest when the table was opened: what comes later does not show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from lakehouse.home.table_commits import arrow_schema, open_table
from lakehouse.home.table_files import dataset


@dataclass(frozen=True)
class TableRows:
    """The files of one version of a table, each with its rows and the extremes that the log knows."""

    table: Path
    schema: pa.Schema
    files: Sequence[Mapping[str, Any]]

    @classmethod
    def of(cls, table: Path) -> TableRows:
        """Return what the newest version of a table holds."""
        known = open_table(table)
        log = pa.table(known.get_add_actions(flatten=True))
        return cls(table, arrow_schema(known), log.to_pylist())

    def batches(self, after: int, through: int) -> ds.Dataset:
        """Return the files that may hold rows of batches after one, up to and with another."""
        return self.dataset(self._between("batch", after + 1, through))

    def between(self, column: str, low: int, high: int) -> TableRows:
        """Return the files that may hold rows with a value of a column in between."""
        return TableRows(self.table, self.schema, self._between(column, low, high))

    @property
    def paths(self) -> list[Path]:
        """Paths of the files."""
        return [self.table / file["path"] for file in self.files]

    @property
    def count(self) -> int:
        """Number of rows that the files hold."""
        return sum(file["num_records"] or 0 for file in self.files)

    def count_through(self, batch: int) -> int:
        """Return how many rows there are of batches up to one; only files that hold later ones too are opened."""
        total, mixed = 0, []
        for file in self.files:
            low, high = file.get("min.batch"), file.get("max.batch")
            if low is None or high is None or low <= batch < high or file["num_records"] is None:
                mixed.append(file)
            elif high <= batch:
                total += file["num_records"]
        return total + (self.dataset(mixed).count_rows(filter=ds.field("batch") <= batch) if mixed else 0)

    def dataset(self, files: Sequence[Mapping[str, Any]] | None = None) -> ds.Dataset:
        """Return files, all by default, as one dataset."""
        chosen = self.files if files is None else files
        return dataset([self.table / file["path"] for file in chosen], self.schema)

    def _between(self, column: str, low: int, high: int) -> list[Mapping[str, Any]]:
        return [file for file in self.files if _may_hold(file, column, low, high)]


def _may_hold(file: Mapping[str, Any], column: str, low: int, high: int) -> bool:
    least, most = file.get(f"min.{column}"), file.get(f"max.{column}")
    return least is None or most is None or (most >= low and least <= high)
