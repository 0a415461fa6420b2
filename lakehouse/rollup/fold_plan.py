"""Plan of a fold: the files of a rollup table that it rewrites, by the log alone; no node is read.

    folded-*/   one level and one range of time: a part; the parts of a level do not overlap
    rest-*/     nodes of parts that were not worth writing anew yet
    others      partial nodes as batches, rebuilds and retractions wrote them: fresh

A part is written anew once enough nodes have come for it, so a node is written a bounded number of times, and a batch
of late rows for all of the past does not make a fold write all of the past.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Int64s = npt.NDArray[np.int64]

FOLDED, REST = "folded-", "rest-"
# How many nodes a part is made to hold; it is cut when it has grown to twice as many.
PART_NODES = 500_000
# A part of so few nodes is always written anew; a larger one when an eighth of its nodes have come for it.
SMALL_NODES = 200_000
WORTH_SHARE = 8
# A fold waits for so many fresh files, of which a batch writes two, or for a sixteenth of the nodes that are folded.
FRESH_FILES = 32
FRESH_SHARE = 16
_SAMPLED = 5_000
_FIRST, _LAST = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class NodeFile:
    """A file of a rollup table: its path below the table, its rows, and the least and largest level and start."""

    path: str
    rows: int
    levels: tuple[int, int]
    starts: tuple[int, int]

    @property
    def is_part(self) -> bool:
        """True if it is the part of a level."""
        return self.path.startswith(FOLDED) and self.levels[0] == self.levels[1] > 0

    @property
    def is_marks(self) -> bool:
        """True if it holds the marker and the counts by level."""
        return self.path.startswith(FOLDED) and self.levels[1] <= 0

    @property
    def is_rest(self) -> bool:
        """True if its nodes have waited for a fold before."""
        return self.path.startswith(REST)


@dataclass(frozen=True)
class Part:
    """The nodes of one level that start in ``[low, high)``, and the file that holds those that are folded."""

    level: int
    low: int
    high: int
    file: NodeFile | None = None

    @property
    def rows(self) -> int:
        """Number of nodes that it has, or had before it was cut."""
        return self.file.rows if self.file else 0


@dataclass(frozen=True)
class TableFiles:
    """The files of a rollup table; ``gone`` are parts of which no node is kept any more."""

    parts: Sequence[NodeFile]
    marks: Sequence[NodeFile]
    rest: Sequence[NodeFile]
    fresh: Sequence[NodeFile]
    gone: Sequence[NodeFile]

    @property
    def loose(self) -> list[NodeFile]:
        """All whose nodes are to be taken into parts."""
        return [*self.marks, *self.rest, *self.fresh]

    @property
    def rows(self) -> int:
        """Number of rows of the table."""
        return sum(file.rows for file in (*self.parts, *self.loose, *self.gone))

    @property
    def is_due(self) -> bool:
        """True if enough nodes are fresh."""
        folded, fresh = (sum(file.rows for file in files) for files in (self.parts, self.fresh))
        if not self.fresh:
            return False
        is_small = folded <= SMALL_NODES
        return is_small or len(self.fresh) >= FRESH_FILES or fresh * FRESH_SHARE >= folded


def table_files(log: pa.Table, horizons: Sequence[int]) -> TableFiles:
    """Sort the files that the log of a table tells of; ``horizons``: since when each level keeps its nodes."""
    found = [_node_file(row) for row in log.to_pylist()]
    parts = sorted((f for f in found if f.is_part), key=lambda file: (file.levels, file.starts))
    gone = [f for f in parts if f.levels[0] <= len(horizons) and f.starts[1] < horizons[f.levels[0] - 1]]
    kept = [f for f in parts if f not in gone]
    loose = [f for f in found if not f.is_part and not f.is_marks]
    return TableFiles(
        kept,
        [f for f in found if f.is_marks],
        [f for f in loose if f.is_rest],
        [f for f in loose if not f.is_rest],
        gone,
    )


def _node_file(row: Mapping[str, Any]) -> NodeFile:
    def ends(column: str) -> tuple[int, int]:
        low, high = (row.get(f"{end}.{column}") for end in ("min", "max"))
        return (_FIRST, _LAST) if low is None or high is None else (low, high)

    return NodeFile(row["path"], row["num_records"] or 0, ends("level"), ends("start_us"))


@dataclass
class Survey:
    """Number of loose nodes that each part of a table is to take in, and a sample of their starts."""

    parts: Sequence[Part]
    horizons: Sequence[int]
    step: int
    counts: Int64s = field(init=False)
    samples: dict[int, list[Int64s]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.counts = np.zeros(len(self.parts), np.int64)

    def add(self, number: int, count: int, starts: Int64s) -> None:
        """Count nodes that come for a part; ``starts``: of one in ``step`` of them."""
        self.counts[number] += count
        self.samples.setdefault(number, []).append(starts)

    def worthy(self, always: bool) -> list[bool]:
        """Return for each part whether it is to be written anew; ``always``: wherever a node has come."""
        return [
            bool(count) and (always or part.rows <= SMALL_NODES or bool(count * WORTH_SHARE >= part.rows))
            for part, count in zip(self.parts, self.counts, strict=True)
        ]

    def cut(self, number: int) -> list[Part]:
        """Return a part, cut where it would hold twice as many nodes as it should."""
        part, total = self.parts[number], self.parts[number].rows + int(self.counts[number])
        if total <= 2 * PART_NODES:
            return [part]
        starts = np.concatenate(self.samples[number])
        if part.file is not None:
            # Nodes that are folded are taken to be spread evenly: the file is not read for this.
            starts = np.concatenate(
                [starts, np.linspace(*part.file.starts, max(2, part.rows // self.step)).astype(np.int64)]
            )
        starts.sort()
        pieces = -(-total // PART_NODES)
        cuts = np.unique(starts[np.arange(1, pieces) * len(starts) // pieces]).tolist()
        ends = [part.low, *(cut for cut in cuts if cut > max(part.low, int(starts[0]))), part.high]
        return [Part(part.level, low, high, part.file) for low, high in pairwise(ends)]


def survey_of(files: TableFiles, horizons: Sequence[int]) -> Survey:
    """Return an empty survey of a table's parts; each level has one at least, and they cover all times."""
    parts = [part for level in range(1, len(horizons) + 1) for part in _parts_of(files.parts, level)]
    return Survey(parts, horizons, max(1, sum(file.rows for file in files.loose) // _SAMPLED))


def _parts_of(files: Sequence[NodeFile], level: int) -> Iterator[Part]:
    own = [file for file in files if file.levels[0] == level]
    lows = [_FIRST, *(file.starts[0] for file in own[1:]), _LAST]
    for place_, (low, high) in enumerate(pairwise(lows)):
        yield Part(level, low, high, own[place_] if own else None)


def place(parts: Sequence[Part], horizons: Sequence[int], levels: Int64s, starts: Int64s) -> Int64s:
    """Return the number of the part that each node belongs to, -1 for what is no node or not kept any more.

    Parts stand in the order of their levels and times.
    """
    found = np.full(len(levels), -1, np.int64)
    for level, horizon in enumerate(horizons, start=1):
        own = [(number, part.low) for number, part in enumerate(parts) if part.level == level]
        here = np.flatnonzero((levels == level) & (starts >= horizon))
        lows = np.array([low for _, low in own[1:]], np.int64)
        found[here] = own[0][0] + np.searchsorted(lows, starts[here], side="right")
    return found
