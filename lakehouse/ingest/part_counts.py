"""Counts of some of a batch's records, made where these are read, and added up to what the ledger says of the batch.

RecordCounts     of records that were read: rows, and how many were rejected for which reason
AcceptedCounts   of rows that go to raw: times, missing values, lateness
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable
from dataclasses import asdict, dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.ingest.confirmed import Reach
from lakehouse.algorithms.ingest.lateness import NOTHING_LATE, Lateness, measure_arrived, measure_files
from lakehouse.config.stream import Stream
from lakehouse.ingest.parser.verdicts import DAY_US, FILTERED, READ_BEFORE
from lakehouse.storage.profiles import NO_DAY

Clocks = tuple[int, int] | None


@dataclass(frozen=True)
class RecordCounts:
    """Number of rows and records that were read, of those rejected, by reason, and of those ``read_before``.

    ``filtered``: rows that the stream is not about; they are none of the others. ``days``: those rejected by the start
    of their day, as a text, and reason; ``NO_DAY`` where no event time is known.
    """

    rows: int = 0
    records: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    read_before: int = 0
    filtered: int = 0
    days: dict[str, dict[str, int]] = field(default_factory=dict)

    @staticmethod
    def of(rows: pa.Table, rejected: pa.Table) -> RecordCounts:
        """Return the counts of usable rows and rejected ones, which have a ``source_item`` and an ``event_us``."""
        filtered = rejected.num_rows
        rejected = rejected.filter(pc.not_equal(rejected["reason"], FILTERED))
        filtered -= rejected.num_rows
        records = sum(pc.sum(pc.equal(each["source_item"], 0)).as_py() or 0 for each in (rows, rejected))
        counts = rejected["reason"].value_counts().to_pylist()
        reasons = {each["values"]: each["counts"] for each in counts}
        read_before = reasons.pop(READ_BEFORE, 0)
        count, days = rows.num_rows + rejected.num_rows, rejected_by_day(rejected)
        return RecordCounts(count, records, reasons, read_before, filtered, days)

    def __add__(self, more: RecordCounts) -> RecordCounts:
        """Return the counts of both together."""
        reasons = dict(Counter(self.reasons) + Counter(more.reasons))
        sums = (self.rows + more.rows, self.records + more.records)
        days = {
            day: dict(Counter(self.days.get(day, {})) + Counter(more.days.get(day, {})))
            for day in self.days | more.days
        }
        others = (self.read_before + more.read_before, self.filtered + more.filtered)
        return RecordCounts(*sums, reasons, *others, days)

    def as_text(self) -> str:
        """Return the counts as JSON."""
        return json.dumps(asdict(self))

    @staticmethod
    def of_text(text: str) -> RecordCounts:
        """Return the counts that ``as_text`` made a text of."""
        return RecordCounts(**json.loads(text))


@dataclass(frozen=True)
class AcceptedCounts:
    """Number of accepted rows, with their times, their missing values by declared column, and their lateness.

    ``spans``: as ``Reach`` has them. ``clocks``: the earliest and the latest time of day, in microseconds after
    midnight; ``arrivals``: the first and the last arrival time.
    """

    accepted: int = 0
    missing: dict[str, int] = field(default_factory=dict)
    low: int | None = None
    high: int | None = None
    clocks: Clocks = None
    spans: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    lateness: Lateness = NOTHING_LATE
    arrivals: Clocks = None

    @staticmethod
    def of(rows: pa.Table, stream: Stream) -> AcceptedCounts:
        """Return the counts of some accepted rows, without their lateness."""
        times = rows["event_us"].to_numpy()
        missing = {name: missing_in(rows, stream, name) for name in stream.all_columns}
        if not len(times):
            return AcceptedCounts(missing=missing)
        spans = Reach(stream.step_us).add(times).spans
        return AcceptedCounts(
            *(len(times), missing, int(times.min()), int(times.max()), ends_of(times % DAY_US), spans),
            arrivals=ends_of(rows["arrival_us"].drop_null().to_numpy()),
        )

    def __add__(self, more: AcceptedCounts) -> AcceptedCounts:
        """Return the counts of both together."""
        lows = [each for each in (self.low, more.low) if each is not None]
        highs = [each for each in (self.high, more.high) if each is not None]
        names = self.missing | more.missing
        return AcceptedCounts(
            accepted=self.accepted + more.accepted,
            missing={name: self.missing.get(name, 0) + more.missing.get(name, 0) for name in names},
            low=min(lows, default=None),
            high=max(highs, default=None),
            clocks=_around(self.clocks, more.clocks),
            spans=_added(self.spans, more.spans),
            lateness=self.lateness + more.lateness,
            arrivals=_around(self.arrivals, more.arrivals),
        )

    def reached_us(self, step_us: int) -> int | None:
        """Return what the rows have reached, as ``Reach`` says."""
        return Reach(step_us, self.spans).newest_us

    def as_text(self) -> str:
        """Return the counts as JSON."""
        return json.dumps(asdict(self))

    @staticmethod
    def of_text(text: str) -> AcceptedCounts:
        """Return the counts that ``as_text`` made a text of."""
        values = json.loads(text)
        values["spans"] = {int(number): tuple(span) for number, span in values["spans"].items()}
        for name in ("clocks", "arrivals"):
            values[name] = tuple(values[name]) if values[name] else None
        values["lateness"] = Lateness.of(values["lateness"])
        return AcceptedCounts(**values)


@dataclass
class Counting:
    """Counts of accepted rows that come piece by piece: those of a file stand together, in their order.

    Rows with an arrival time have another order, across files; across tasks ``batch_lateness`` measures it. Memory: 16
    bytes for each row with an arrival time.
    """

    stream: Stream
    newest_before_us: int | None
    _counts: AcceptedCounts = field(default_factory=AcceptedCounts)
    _arrived: list[npt.NDArray[np.int64]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._files = FileLateness(self.newest_before_us)

    def add(self, rows: pa.Table) -> None:
        """Add rows; cost: some array operations for each run of rows of one file."""
        self._counts = self._counts + AcceptedCounts.of(rows, self.stream)
        if self.stream.arrival_time is not None:
            arrived = rows.filter(rows["arrival_us"].is_valid())
            self._arrived.append(np.stack([arrived[name].to_numpy() for name in ("event_us", "arrival_us")]))
            rows = rows.filter(rows["arrival_us"].is_null())
        self._files.add(rows)

    @property
    def total(self) -> AcceptedCounts:
        """The counts of all rows that were added."""
        late = self._files.lateness
        if self._arrived:
            times, arrivals = np.concatenate(self._arrived, axis=1)
            late = late + measure_arrived(times, arrivals, self.newest_before_us)
        return replace(self._counts, lateness=late)


class FileLateness:
    """Lateness of rows that stand in order inside each file; memory: a number for each file."""

    def __init__(self, newest_before_us: int | None) -> None:
        self._newest_before_us, self._numbers = newest_before_us, dict[str, int]()
        self._reached_us = dict[Hashable, int]()
        self.lateness = replace(NOTHING_LATE, newest_us=newest_before_us)

    def add(self, rows: pa.Table) -> None:
        """Add rows that come after those before."""
        paths = rows["source_file"].combine_chunks().dictionary_encode()
        named = (self._numbers.setdefault(path, len(self._numbers)) for path in paths.dictionary.to_pylist())
        numbers = np.fromiter(named, np.int64)[paths.indices.to_numpy()]
        event_us = rows["event_us"].to_numpy()
        self.lateness += measure_files(event_us, numbers, self._newest_before_us, self._reached_us)


def rejected_by_day(rejected: pa.Table) -> dict[str, dict[str, int]]:
    """Return how many records were rejected for each reason, by the start of their day of event time."""
    times = pc.fill_null(rejected["event_us"], NO_DAY).to_numpy()
    day = pa.array(np.where(times == NO_DAY, NO_DAY, times // DAY_US * DAY_US))
    counts = pa.table({"day": day, "reason": rejected["reason"]}).group_by(["day", "reason"])
    days = dict[str, dict[str, int]]()
    for each in counts.aggregate([([], "count_all")]).to_pylist():
        if each["reason"] != READ_BEFORE:
            days.setdefault(str(each["day"]), {})[each["reason"]] = each["count_all"]
    return days


def missing_in(rows: pa.Table, stream: Stream, column: str) -> int:
    """Return how many rows have no usable value of a column."""
    missing = rows[column].null_count
    if column in stream.counters:
        missing += pc.sum(pc.less(rows[column], 0)).as_py() or 0
    return int(missing)


def ends_of(times: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> Clocks:
    """Return the least and the largest of some times, None where there are none."""
    return (int(times.min()), int(times.max())) if len(times) else None


def _around(one: Clocks, other: Clocks) -> Clocks:
    """Return the range around two."""
    if one is None or other is None:
        return one or other
    return min(one[0], other[0]), max(one[1], other[1])


def _added(
    spans: dict[int, tuple[int, int, int]], more: dict[int, tuple[int, int, int]]
) -> dict[int, tuple[int, int, int]]:
    both = dict(spans)
    for number, (count, earliest, latest) in more.items():
        known = both.get(number, (0, earliest, latest))
        both[number] = (known[0] + count, min(known[1], earliest), max(known[2], latest))
    return both
