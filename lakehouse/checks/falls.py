"""Falls of a counter by meter and period, from nodes and what was kept of earlier ones.

A fall between two nodes counts, and of those inside a node one, if any is sure: late rows leave some in doubt. Of each
meter the partial nodes of its last ``OPEN`` nodes are kept as they are, as later rows may still be among theirs. Nodes
before these are settled; of them is kept

    for a period       the falls in it, the node before it, and whether the counter falls from that one
    for a meter        the last reading of the last of them

A row that comes for a settled node makes its meter anew from the start of that period on, from the files of that time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.checks.key_nodes import IS_KEPT, NAMED, Nodes
from lakehouse.rollup.counters import joined
from lakehouse.spark.row_hash import xxhash64

OPEN = 2
_PARTS = ("n", "first_us", "last_us", "max", "first", "last", "drops_low", "drops_high")
# What a kept row is; of a period its falls, the node before it, and 1 if the counter falls from that one.
_KIND, _FALLS, _BEFORE_US, _BEFORE, _FELL = (
    f"kept__{name}" for name in ("kind", "falls", "before_us", "before", "fell")
)
_KEPT = [
    *(pa.field(name, pa.int64()) for name in (_KIND, _FALLS, _BEFORE_US, _FELL)),
    pa.field(_BEFORE, pa.float64()),
]
_NODE, _SETTLED, _PERIOD = range(3)
_NEVER, _EVER = -(2**62), 2**62
_PERIODS = np.dtype(
    [(name, np.int64) for name in ("meter", "start", "at", "falls", "before_us", "fell")]
    + [("before", np.float64)]
)
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Falls:
    """Counter whose falls are looked for, more than ``most`` of them in a period; ``files``: with the last start."""

    nodes: Nodes
    counter: str
    per_us: int
    most: int
    table: pa.Schema
    files: Sequence[tuple[str, int | None]]

    @property
    def kept(self) -> pa.Schema:
        """The columns of nodes, and of what is kept of them."""
        names = [*self.nodes.keys, "start_us", *(f"{self.counter}__{part}" for part in _PARTS)]
        return pa.schema([*(self.table.field(name) for name in names), *_KEPT])

    def read(self, from_us: int, hashes: Integers) -> Iterator[pa.Table]:
        """Yield the nodes from a time on whose keys have some hashes."""
        for path, last_us in self.files:
            if last_us is None or last_us >= from_us:
                for rows in self.nodes.read(path, self.table, self.kept):
                    own = rows.filter(pc.field("start_us") >= from_us)
                    yield own.filter(pa.array(np.isin(self.hashes(own), hashes)))

    def hashes(self, rows: pa.Table) -> Integers:
        """Return hashes of the keys of rows."""
        return xxhash64([rows[name] for name in self.nodes.keys], rows.num_rows)


def falling(of: Falls, folder: str | None, _: int, rows: pa.Table) -> pa.Table:
    """Return how many periods of meters there are, and some of those in which a counter falls more often."""
    rows, meter, one = _repaired(of, _relevant(of, rows))
    kind, start = _whole(rows[_KIND], _NODE), rows["start_us"].to_numpy()
    places = np.flatnonzero(kind != _PERIOD)
    places = places[np.lexsort((start[places], meter[places]))]
    run = _runs(meter[places], start[places])
    is_last = np.diff(run, append=-1) != 0
    parts = rows.select([f"{of.counter}__{part}" for part in _PARTS]).take(pa.array(places))
    states, at = joined(parts, run, of.counter), places[is_last]
    is_settled = kind[at] == _SETTLED
    added = _added(of, meter[at], start[at], states)
    known = _known(rows, meter, kind == _PERIOD)
    periods = _summed(np.concatenate([known, added[~is_settled]]))
    found = _judged(of, periods, rows, one)
    if folder is None:
        return found
    left = np.searchsorted(meter[at], meter[at], "right") - np.arange(len(at))
    is_old = (left > OPEN) & ~is_settled
    settled = _summed(np.concatenate([known, added[is_old]]))
    is_anchor = (left == OPEN + 1) | (is_settled & (left <= OPEN))
    is_open = ((left <= OPEN) & ~is_settled)[run]
    # Of most rows the keys alone are taken: copying the others costs more than all else.
    keys, last = rows.select(of.nodes.keys), states[f"{of.counter}__last"].filter(pa.array(is_anchor))
    kept = [
        _as_rows(of, settled, keys, one),
        _anchors(of, keys.take(pa.array(at[is_anchor])), start[at][is_anchor], last),
        rows.select(of.kept.names).take(pa.array(places[is_open])),
    ]
    return of.nodes.keeping(found, pa.concat_tables([each.cast(of.kept) for each in kept]), folder)


def _relevant(of: Falls, rows: pa.Table) -> pa.Table:
    """Return nodes with a reading, and what is kept, from the first start on."""
    has = pc.and_(pc.greater(rows[f"{of.counter}__n"], 0), pc.is_valid(rows[f"{of.counter}__first"]))
    is_one = pc.or_kleene(has, pc.equal(rows[_KIND], _PERIOD))
    is_own = pc.fill_null(pc.and_(is_one, pc.greater_equal(rows["start_us"], of.nodes.since_us)), False)
    return rows if pc.all(is_own).as_py() else rows.filter(is_own)


def _repaired(of: Falls, rows: pa.Table) -> tuple[pa.Table, Integers, Integers]:
    """Return rows with their numbers, those meters made anew of which a settled node has new rows."""
    kind, start = _whole(rows[_KIND], _NODE), rows["start_us"].to_numpy()
    meter, one = _numbered(rows, of.nodes.keys)
    settled_us, from_us = np.full(len(one), _NEVER), np.full(len(one), _EVER)
    settled_us[meter[kind == _SETTLED]] = start[kind == _SETTLED]
    is_late = ~_flags(rows[IS_KEPT]) & (start <= settled_us[meter])
    np.minimum.at(from_us, meter[is_late], start[is_late] - start[is_late] % of.per_us)
    late = np.flatnonzero(from_us < _EVER)
    if not len(late):
        return rows, meter, one
    since, is_period = from_us[meter], kind == _PERIOD
    later = np.flatnonzero(is_period & (start >= since))
    later = later[np.lexsort((start[later], meter[later]))]
    # The first period from there on knows the node before.
    firsts = rows.take(pa.array(later[np.unique(meter[later], return_index=True)[1]]))
    firsts = firsts.filter(pc.is_valid(firsts[_BEFORE_US]))
    marks = rows.take(pa.array(one[late]))
    again = pa.concat_tables([of.kept.empty_table(), *of.read(int(from_us[late].min()), of.hashes(marks))])
    parts = [
        marks.select(of.kept.names),
        rows.filter(pa.array((since == _EVER) | (is_period & (start < since)))).select(of.kept.names),
        _anchors(of, firsts, firsts[_BEFORE_US].to_numpy(), firsts[_BEFORE]),
        again,
    ]
    found = pa.concat_tables([part.cast(of.kept) for part in parts])
    is_again = np.arange(len(found)) >= len(found) - len(again)
    numbers, own = _numbered(found, of.nodes.keys)
    since = np.full(len(own), _EVER)
    since[numbers[: len(late)]] = from_us[late]
    is_wanted = ~is_again | (found["start_us"].to_numpy() >= since[numbers])
    is_wanted[: len(late)] = False
    found = _relevant(of, found.filter(pa.array(is_wanted)))
    return found, *_numbered(found, of.nodes.keys)


def _added(of: Falls, meter: Integers, start: Integers, states: pa.Table) -> Any:
    """Return what nodes, in order, add to their periods."""
    first, last, inside = (
        states[f"{of.counter}__{part}"].to_numpy() for part in ("first", "last", "drops_low")
    )
    added = np.zeros(len(meter), _PERIODS)
    added["meter"], added["at"], added["start"] = meter, start, start - start % of.per_us
    added["falls"], added["before_us"] = inside > 0, _NEVER
    has_one = meter[1:] == meter[:-1]
    falls = has_one & (last[:-1] > first[1:])
    is_within = added["start"][1:] == added["start"][:-1]
    added["falls"][1:] += falls & is_within
    added["fell"][1:] = falls & ~is_within
    added["before_us"][1:] = np.where(has_one, start[:-1], _NEVER)
    added["before"][1:] = np.where(has_one, last[:-1], 0)
    return added


def _known(rows: pa.Table, meter: Integers, is_period: Flags) -> Any:
    """Return the periods that were kept."""
    own = rows.filter(pa.array(is_period))
    known = np.zeros(len(own), _PERIODS)
    known["meter"], known["start"], known["at"] = meter[is_period], own["start_us"].to_numpy(), _NEVER
    known["falls"], known["fell"] = _whole(own[_FALLS], 0), _whole(own[_FELL], 0)
    known["before_us"], known["before"] = (
        _whole(own[_BEFORE_US], _NEVER),
        own[_BEFORE].fill_null(0).to_numpy(),
    )
    return known


def _summed(parts: Any) -> Any:
    """Return one row for each period of a meter; the node before it is that of its first part."""
    parts = parts[np.lexsort((parts["at"], parts["start"], parts["meter"]))]
    begins = np.flatnonzero(np.diff(_runs(parts["meter"], parts["start"]), prepend=-1))
    found = parts[begins]
    if len(begins):
        found["falls"] = np.add.reduceat(parts["falls"], begins)
    return found


def _judged(of: Falls, periods: Any, rows: pa.Table, one: Integers) -> pa.Table:
    since_us = of.nodes.since_us
    # The first period is read for the falls between it and the next alone.
    periods = periods[periods["start"] >= since_us + of.per_us]
    falls = periods["falls"] + (periods["fell"] * (periods["before_us"] >= since_us))
    broken = np.flatnonzero(falls > of.most)
    order = broken[np.lexsort((periods["start"][broken], -falls[broken]))]
    if len(order) > NAMED:
        # Of equal ones the first by their keys are shown, whatever the order of rows.
        fewest, latest = falls[order[NAMED - 1]], periods["start"][order[NAMED - 1]]
        is_shown = (falls[order] > fewest) | ((falls[order] == fewest) & (periods["start"][order] <= latest))
        order = order[is_shown]
    keys = rows.select(of.nodes.keys).take(pa.array(one[periods["meter"][order]]))
    shown = keys.append_column("kept__start", pa.array(periods["start"][order]))
    by = [(_FALLS, "descending"), *((name, "ascending") for name in ("kept__start", *of.nodes.keys))]
    shown = shown.append_column(_FALLS, pa.array(falls[order])).sort_by(by)[:NAMED]
    return of.nodes.named(shown, shown["kept__start"], shown[_FALLS], broken=len(broken), of=len(periods))


def _as_rows(of: Falls, periods: Any, keys: pa.Table, one: Integers) -> pa.Table:
    """Return periods as they are kept."""
    has_one = periods["before_us"] > _NEVER
    columns = {
        "start_us": pa.array(periods["start"]),
        _KIND: pa.array(np.full(len(periods), _PERIOD)),
        _FALLS: pa.array(periods["falls"]),
        _FELL: pa.array(periods["fell"]),
        _BEFORE_US: pa.array(periods["before_us"], mask=~has_one),
        _BEFORE: pa.array(periods["before"], mask=~has_one),
    }
    return _with(of, keys.take(pa.array(one[periods["meter"]])), columns)


def _anchors(of: Falls, keys: pa.Table, start: Integers, last: pa.ChunkedArray) -> pa.Table:
    """Return the last settled nodes of meters, of which the last reading is known."""
    times, zeros = pa.array(start), pa.array(np.zeros(len(start)))
    values = (pa.array(np.ones(len(start), np.int64)), times, times, last, last, zeros, zeros)
    parts = (part for part in _PARTS if part != "max")
    columns = {f"{of.counter}__{part}": each for part, each in zip(parts, values, strict=True)}
    kind = pa.array(np.full(len(start), _SETTLED))
    return _with(of, keys, {"start_us": times, _KIND: kind, **columns})


def _with(of: Falls, keys: pa.Table, columns: dict[str, Any]) -> pa.Table:
    own = {name: keys[name] for name in of.nodes.keys} | columns
    return pa.table(
        [
            own[field.name].cast(field.type) if field.name in own else pa.nulls(len(keys), field.type)
            for field in of.kept
        ],
        schema=of.kept,
    )


def _numbered(rows: pa.Table, keys: Sequence[str]) -> tuple[Integers, Integers]:
    """Return a number for each row, the same for the same keys, from 0, and a row of each number."""
    number = np.zeros(len(rows), np.int64)
    for place, name in enumerate(keys):
        codes = rows[name].combine_chunks().dictionary_encode(null_encoding="encode")
        codes = codes.combine_chunks() if isinstance(codes, pa.ChunkedArray) else codes
        own = codes.indices.to_numpy().astype(np.int64)
        both = number * (len(codes.dictionary) + 1) + own
        # Codes of one column leave no number out.
        number = np.unique(both, return_inverse=True)[1] if place else own
    one = np.empty(int(number.max(initial=-1)) + 1, np.int64)
    one[number[::-1]] = np.arange(len(number))[::-1]
    return number, one


def _runs(meter: Integers, start: Integers) -> Integers:
    """Number pairs, in order, from 0."""
    if not len(meter):
        return meter
    return np.cumsum(np.append(False, (np.diff(meter) != 0) | (np.diff(start) != 0)))


def _whole(column: pa.ChunkedArray, nothing: int) -> Integers:
    return np.asarray(column.fill_null(nothing).to_numpy(), np.int64)


def _flags(column: pa.ChunkedArray) -> Flags:
    return np.asarray(column.to_numpy(zero_copy_only=False), np.bool_)
