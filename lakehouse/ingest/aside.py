"""Files beside the parts of a table on the way from one task to another, or to the driver; no log tells of them."""

import uuid
from collections.abc import Iterable
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse.storage.tables.table_files import sink, source
from lakehouse.storage.tables.tables_place import place_at

# So that the repeats of one item are found without those of all others.
_GROUP_ROWS = 100_000


def write_aside(table: str, rows: pa.Table) -> str:
    """Write rows to a file of a new name in a table's folder, by its address; return the file's."""
    path = place_at(table) / f"{uuid.uuid4().hex}.aside"
    with sink(path) as file:
        pq.write_table(rows, file, _GROUP_ROWS, compression="none", use_dictionary=False)
    return str(path)


def read_aside(path: str) -> pa.Table:
    """Return the rows of such a file."""
    return pq.read_table(source(place_at(path)))


def delete_aside(paths: Iterable[str]) -> None:
    """Delete files that nothing refers to; a vacuum deletes those that are left."""
    for path in paths:
        with suppress(OSError):
            place_at(path).unlink()
