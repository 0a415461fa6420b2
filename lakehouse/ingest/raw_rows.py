"""Raw rows of some batches and times as work of tasks: each reads some files of raw, piece by piece."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass

import pyarrow as pa

from lakehouse.engine import Item
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.open_tables import opened
from lakehouse.storage.tables.table_commits import arrow_schema
from lakehouse.storage.tables.table_log import FileFacts, file_facts
from lakehouse.storage.tables.table_reads import pieces_of

# A task has files of so many rows, or one of more.
ROWS_A_TASK = 500_000
_LEAST, _MOST = -(2**63), 2**63 - 1
_NUMBERS = ("first", "last", "from_us", "to_us")
_ITEMS = pa.schema(
    {"files": pa.list_(pa.string()), "rows": pa.int64(), **dict.fromkeys(_NUMBERS, pa.int64())}
)


@dataclass(frozen=True)
class RawRows:
    """The raw rows of batches ``first`` to ``last`` whose event time is in ``[from_us, to_us)``."""

    first: int = _LEAST
    last: int = _MOST
    from_us: int = _LEAST
    to_us: int = _MOST

    def may_be_in(self, file: FileFacts) -> bool:
        """True if a file may have such a row, by its statistics."""
        (low, high), (first, last) = (file.ends(name) for name in ("event_us", "batch"))
        is_of_batches = last is None or first is None or (first <= self.last and last >= self.first)
        return is_of_batches and (low is None or high is None or (low < self.to_us and high >= self.from_us))

    def of(self, rows: pa.Table) -> pa.Table:
        """Return those of some rows."""
        times, batches = rows["event_us"].to_numpy(), rows["batch"].to_numpy()
        is_own = (batches >= self.first) & (batches <= self.last)
        is_own &= (times >= self.from_us) & (times < self.to_us)
        return rows if is_own.all() else rows.filter(pa.array(is_own))


def raw_items(raw: Location, *chosen: RawRows) -> pa.Table:
    """Return the files that may have such rows as items of an engine, several small ones each, with their ``rows``."""
    facts = file_facts(raw)
    return pa.Table.from_pylist([item for rows in chosen for item in _items(facts, rows)], _ITEMS)


def _items(facts: Sequence[FileFacts], rows: RawRows) -> Iterator[dict[str, object]]:
    files, waiting = list[str](), 0
    found = [file for file in facts if rows.may_be_in(file)]
    for number, file in enumerate(found, start=1):
        files.append(str(file.path.absolute()))
        waiting += file.rows
        if waiting >= ROWS_A_TASK or number == len(found):
            yield {"files": files, "rows": waiting} | asdict(rows)
            files, waiting = [], 0


def raw_columns(raw: Location, names: Collection[str]) -> pa.Schema:
    """Return some columns of raw, and the event time and batch of each row, without those that no row has yet."""
    with opened(raw) as known:
        wanted = {"event_us", "batch", *names}
        return pa.schema([field for field in arrow_schema(known) if field.name in wanted])


def rows_of(item: Item, columns: pa.Schema) -> Iterator[pa.Table]:
    """Yield the rows of an item, some of a file at a time; columns that the file lacks are null."""
    rows = RawRows(*(item[name] for name in _NUMBERS))
    for path in item["files"]:
        for piece in pieces_of(path, columns):
            yield rows.of(piece)
