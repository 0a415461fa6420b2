"""Parts that buckets have found -> answers and alarms, as one call of the engine in which rows meet by group.

    parts of buckets, answers at the same ticks, alarms that stand
        -> all of a group in one place: its answers, then what they change about its alarms
        -> answers, alarms

The parts lie in files of the table of answers that no commit names; whoever has committed the answers deletes them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.config.stream import Stream
from lakehouse.engine import Engine
from lakehouse.engine.parts import sink_of
from lakehouse.queries.aggregate.alarms import Changed, Following, standing_alarms
from lakehouse.queries.aggregate.answers import NEW, Adding, with_earlier
from lakehouse.queries.aggregate.query import AggregateQuery, shape_of
from lakehouse.queries.aggregate.slack import moved, policy_of, slack_needed
from lakehouse.queries.aggregate.tables import COUNTED_AS, counted_types, group_types
from lakehouse.queries.aggregate.value_codes import ALARM, ANSWER, coded, newest
from lakehouse.queries.runtime.recall.needed_slack import NEEDED, counted
from lakehouse.queries.runtime.tables import Constants, bucket_of, quoted
from lakehouse.queries.runtime.tasks.bucket import BucketResult
from lakehouse.queries.runtime.tasks.by_bucket import ROWS_A_PLACE, Answered, Output, run_buckets
from lakehouse.queries.runtime.tasks.reading import Columns, Counted, FileRows, SideRows
from lakehouse.storage.layout import Home
from lakehouse.storage.tables.table_log import files_near
from lakehouse.storage.tables.table_reads import named_columns
from lakehouse.storage.tables.tables_place import place_at

_PART = "part"
_ALARM = ("alarm", "state", "raised_us", "cleared_us", "change", "merged_into")
_NEVER = 2**62


@dataclass(frozen=True)
class Ticks:
    """The first tick that has parts, and the first and last of those that were answered before; None for none."""

    first_us: int | None
    first_revised_us: int | None
    last_revised_us: int | None


@dataclass(frozen=True)
class Revision:
    """Revision by the parts of a batch or repair. ``how`` and ``number`` say which one it is.

    ``parts``: their files, which have the columns ``stored``. ``whole``: ranges of ticks at which they are all
    that there is.
    """

    engine: Engine
    layout: Home
    query: AggregateQuery
    streams: Mapping[str, Stream]
    how: str
    number: int
    parts: Sequence[Counted]
    stored: pa.Schema
    ticks: Ticks
    changed: Changed | None
    whole: Sequence[tuple[int, int]] = ()

    def answered(self) -> Answered:
        """Write answers and alarms, to be committed; their numbers are the metrics ``answered`` and ``revised``."""
        layout, query = self.layout, self.query
        earlier, standing = self._earlier_files(), self._standing()
        held = [*self.parts, *earlier, *standing]
        places = 1 + sum(rows for _, rows in held) // ROWS_A_PLACE
        inputs = [SideRows(self.parts, self._part_rows(places)), SideRows(earlier, self._answer_rows(places))]
        answers = sink_of(layout.answers(query.name))
        constants: Constants = {"found": self.how, "batch": self.number}
        outputs = [Output(ANSWER, answers, constants)]
        if self.changed is not None:
            inputs.append(SideRows(standing, self._alarm_rows(places)))
            alarms = sink_of(layout.alarms(query.name))
            outputs.append(Output(ALARM, alarms, constants))
        if self.query.recall is not None and self.how == "repair":
            needed = sink_of(layout.needed_slack(query.name))
            outputs.append(Output(NEEDED, needed, {"repair": self.number}))
        kernels = Groups(self._adding, self._following, tuple(self._groups), self.whole)
        step = f"answers of {query.name}, {'batch' if self.how == 'online' else 'repair'} {self.number}"
        found = run_buckets(self.engine, step, inputs, places, kernels, outputs)
        for path, _ in standing:
            path.unlink(missing_ok=True)
        return found

    @property
    def _groups(self) -> list[str]:
        return list(group_types(self.query, self.streams))

    @property
    def _adding(self) -> Adding:
        return Adding.of(self.query, shape_of(self.query), self.streams, self.how, self.ticks.last_revised_us)

    @property
    def _following(self) -> Following | None:
        if self.changed is None:
            return None
        return Following.of(self.query, self.streams, self.changed, self.how, self.number)

    def _earlier_files(self) -> list[Counted]:
        """Return the files that may have answers which parts are added to, or from which alarms follow."""
        ranges: list[tuple[int | None, int | None]] = [*self.whole]
        if not ranges:
            ranges.append((self.ticks.first_revised_us, self.ticks.last_revised_us))
        if self.changed is not None:
            ranges.append((self.changed.from_us, _NEVER))
        known = sorted((low, high) for low, high in ranges if low is not None and high is not None)
        table = self.layout.answers(self.query.name)
        return list(dict(each for some in known for each in files_near(table, "tick_us", [some])).items())

    def _standing(self) -> list[Counted]:
        """Return the file of the alarms that stand, which is made for this call."""
        if self.changed is None:
            return []
        query, alarms = self.query, self.layout.alarms(self.query.name)
        lateness_us = query.slack_us + max(self.streams[side.stream].latest for side in query.sides)
        standing = standing_alarms(
            alarms, self.layout.folder_of(alarms), self.changed.from_us, self.changed.last_us - lateness_us
        )
        entries = sink_of(alarms).write(standing).to_pylist()
        return [(place_at(each["path"]), each["rows"]) for each in entries]

    def _part_rows(self, places: int) -> Columns:
        groups = [f"g_{name}" for name in self._groups]
        own = [name for name in self._adding.read if name not in ("revision", "part_bucket", COUNTED_AS)]
        columns = [
            *(f"'{_PART}' AS kind", bucket_of(quoted(groups), places), f"CAST({NEW} AS int) AS revision"),
            *("bucket AS part_bucket", *(f"`{name}`" for name in (*own, *groups))),
            *(f"CAST(NULL AS {kind}) AS {name}" for name, kind in counted_types(self.query).items()),
        ]
        return Columns(FileRows(self.stored), tuple(columns))

    def _answer_rows(self, places: int) -> Columns:
        own = [*(name for name in self._adding.read if name != "part_bucket"), "holds"]
        columns = [
            *(f"'{ANSWER}' AS kind", bucket_of(quoted(self._groups), places), "-1 AS part_bucket"),
            *(f"`{name}`" for name in own),
            *(f"`{name}` AS `g_{name}`" for name in self._groups),
        ]
        names = {*own, *self._groups, "found", "batch"}
        others = f"NOT (found = '{self.how}' AND batch = {self.number})"
        stored = named_columns(self.layout.answers(self.query.name), names)
        return Columns(FileRows(stored, others), tuple(columns))

    def _alarm_rows(self, places: int) -> Columns:
        columns = [
            *(f"'{ALARM}' AS kind", bucket_of(quoted(self._groups), places)),
            *(f"`{name}`" for name in _ALARM),
            *(f"`{name}` AS `g_{name}`" for name in self._groups),
        ]
        stored = named_columns(self.layout.alarms(self.query.name), {*_ALARM, *self._groups})
        return Columns(FileRows(stored), tuple(columns))


@dataclass(frozen=True)
class Groups:
    """The kernel of places, each of which has all rows of its groups: parts, earlier answers, and alarms.

    ``whole``: ranges of ticks at which parts are all that there is; none where they are added to answers.
    """

    adding: Adding
    following: Following | None
    groups: tuple[str, ...]
    whole: Sequence[tuple[int, int]] = ()

    def __call__(self, place: int, rows: pa.Table) -> BucketResult:
        """Return the result of a place with rows."""
        new, earlier = (self._of(rows, kind, (*self.adding.read, "holds")) for kind in (_PART, ANSWER))
        keys, before = ["tick_us", *self.groups], earlier[:0]
        if not self.whole:
            whole = with_earlier(new, earlier, keys)
            answers, before = self.adding(whole), newest(whole[len(new) :], keys, "revision")
        else:
            ticks, (first, last) = earlier["tick_us"].to_numpy(), np.array(self.whole, np.int64).T
            at = np.searchsorted(first, ticks, "right") - 1
            at = earlier.filter(pa.array((at >= 0) & (ticks <= last[at])))
            before = newest(at, keys, "revision")
            answers = self.adding.instead(new, before, keys)
        is_first = pc.equal(answers["revision"], 0)
        first = pc.sum(is_first).as_py() or 0
        metrics = {"answered": first, "revised": len(answers) - first}
        found = {ANSWER: answers}
        if self.adding.how == "repair":
            found[NEEDED] = self._moved(answers, before, keys)
        if self.following is not None:
            columns = ["tick_us", *self.groups, "revision", "holds"]
            whole = pa.concat_tables([earlier.select(columns), answers.select(columns)])
            since = whole.filter(pc.greater_equal(whole["tick_us"], self.following.changed.from_us))
            found[ALARM] = self.following(self._of(rows, ALARM, _ALARM), since)
        return BucketResult(found, {**metrics, "needed": self._needed(answers, before)})

    def _needed(self, answers: pa.Table, before: pa.Table) -> list[int]:
        """Return how many answers of a batch needed which slack, less those that they take the place of."""
        policy = policy_of(self.adding.query)
        if policy is None or self.adding.how == "repair":
            return []
        needed, was = (slack_needed(self.adding.query, own)[1] for own in (answers, before))
        side = np.zeros(max(len(needed), len(was)), np.int64)
        return counted(policy, side[: len(needed)], needed) + counted(policy, side[: len(was)], was, -1)

    def _moved(self, answers: pa.Table, before: pa.Table, keys: list[str]) -> pa.Table:
        """Return how the answers of a repair move from the slack that they needed before."""
        codes = coded(pa.concat_tables([answers.select(keys), before.select(keys)]), keys)
        own, of_before = codes[: len(answers)], codes[len(answers) :]
        is_replaced = np.isin(of_before, own)
        before, of_before, order = (
            before.filter(pa.array(is_replaced)),
            of_before[is_replaced],
            np.argsort(own),
        )
        rank = order[np.searchsorted(own, of_before, sorter=order)]
        return moved(self.adding.query, answers, before, rank)

    def _of(self, rows: pa.Table, kind: str, columns: Sequence[str]) -> pa.Table:
        """Return the rows of a kind, with some columns and those of GROUP BY."""
        groups = [f"g_{name}" for name in self.groups]
        own = rows.filter(pc.equal(rows["kind"], kind)).select([*columns, *groups])
        return own.rename_columns([*columns, *self.groups])
