"""Rules of a stream over time, judged by its ledger and its rollup -> how far each is from holding, and a sentence.

Now is the clock, or the time that is asked for. A stream of which no batch ever came within ``latest`` of its newest
row is a backfill: of it now is its newest time, so that it does not matter when somebody loaded its rows.

    freshness                       the ledger's newest time: a look at its log
    late_share, missing_share       new rows of the ledger, which the check reads anyway
    new_columns                     two manifests: after the batches that have passed, and after the new ones
    volume                          nodes of files that the check measures anyway; each is measured once
    silent, counter_resets          one job each, over new nodes and what is kept of those of a bounded time
    drift                           the profile of a few days

Nothing here is read of raw.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

from lakehouse.algorithms.profile.drift import Shares, shares_of_numbers, shares_of_values
from lakehouse.checks.file_figures import Measured
from lakehouse.checks.key_nodes import NAMED, Nodes
from lakehouse.checks.stream_rules import Verdict
from lakehouse.checks.table_rows import TableRows
from lakehouse.checks.time_nodes import Counted, Keeping, Meeting
from lakehouse.config.durations import format_timestamp as shown
from lakehouse.config.durations import spelled_duration
from lakehouse.config.rules import over_time
from lakehouse.config.stream import Stream
from lakehouse.engine import Engine
from lakehouse.ingest.sources.manifest_rows import ManifestRows
from lakehouse.spark.deviations import Counts
from lakehouse.storage.layout import Home
from lakehouse.storage.ledger import Extent, read_extent
from lakehouse.storage.masks import form_of
from lakehouse.storage.profiles import DAY_US, ColumnProfile, Profile, day_text, read_profile
from lakehouse.storage.tables.table_log import read_columns

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND_US = 1_000_000
# Letters of a field's name that are shown.
_LONGEST = 60
# A share is a double: 0.001 of 1,000 rows is one row.
_ROUNDING = 1e-6
# What the median of distances from a median is multiplied by, so that it is the deviation of normal numbers.
_NORMAL = 1.4826
# Of fewer values the stability index is mostly chance.
_FEWEST_VALUES = 100
_COLUMNS = ("batch", "accepted", "late", "missing", "max_event_us", "committed_at")
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Batch:
    """Counts of a batch by the ledger; ``behind_us``: from its newest row to its commit, None without one."""

    accepted: int
    late: int
    missing: Mapping[str, int]
    behind_us: int | None


@dataclass(frozen=True)
class Timeline:
    """A stream's new batches, its extent, and now; ``fields``: those of new files that no file before had.

    ``profile``: of the days that rules about drift compare.

    ``is_live``: some batch, new or not, came within ``latest`` of its newest row.
    """

    stream: Stream
    batches: Sequence[Batch]
    extent: Extent
    is_live: bool
    now_us: int
    moment: str
    fields: Sequence[str] = ()
    profile: Profile = field(default_factory=dict)

    @property
    def counted(self) -> Sequence[Counted]:
        """The periods that rules about volume count, and by the nodes of which level and grouping."""
        spans: dict[tuple[int, int], int] = {}
        for volume in (rule.volume for rule in self.stream.time_rules if rule.volume):
            key = _level_of(self.stream, volume), volume.per
            since = self.now_us - volume.reach_us - volume.history_us - volume.per
            spans[key] = min(since, spans.get(key, since))
        grouping = _grouping_of(self.stream, ())
        return [Counted(level, grouping, per, since) for (level, per), since in spans.items()]

    def late_after(self, batch: Batch) -> bool:
        """Return whether a batch of a live stream is a backfill, of which lateness says nothing."""
        return self.is_live and batch.behind_us is not None and batch.behind_us > self.stream.latest


@dataclass(frozen=True)
class Judged:
    """Inputs of a judge: the timeline, the rollup with its horizons, what its files measure, and the engine."""

    timeline: Timeline
    rollup: TableRows | None
    horizons: Sequence[int]
    measured: Measured
    engine: Engine
    keeping: Keeping | None = None

    def meeting(self, nodes: Nodes, rollup: TableRows, limits: over_time.Limits, step: str) -> Meeting:
        """Return the nodes that a rule is about, whose keys meet."""
        stream = self.timeline.stream
        rule = f"{limits!r} of {stream.definition()}"
        width_us = stream.levels[nodes.level - 1].width_us
        return Meeting(nodes, rollup, width_us, self.engine, f"{step} of {stream.name}", rule, self.keeping)


def timeline_of(
    home: Home, stream: Stream, batches: tuple[int, int], was_live: bool, now_us: int | None
) -> Timeline | None:
    """Return the timeline of a stream up to a batch, with batches after one as new; None without rules over time.

    ``was_live``: known of earlier batches. ``now_us``: None is the clock, or the end of a backfill.
    """
    if not stream.time_rules:
        return None
    since, through = batches
    rows = read_columns(home.ledger(stream.name), _COLUMNS, ("batch", since + 1, through))
    new = [_batch(*row) for row in sorted(rows, key=lambda row: row[0])]
    is_live = was_live or any(each.behind_us is not None and each.behind_us <= stream.latest for each in new)
    extent = read_extent(home, stream.name, through)
    clock_us = time.time_ns() // 1000
    is_backfill = now_us is None and not is_live and extent.newest_us is not None
    chosen = extent.newest_us if is_backfill else now_us
    now_us = clock_us if chosen is None else chosen
    moment = shown(now_us) + (", where a backfill ends" if is_backfill else "")
    fields, profile = _new_fields(home, stream, batches), _profile(home, stream, now_us)
    return Timeline(stream, new, extent, is_live, now_us, moment, fields, profile)


def time_verdicts(judged: Judged) -> dict[str, Verdict]:
    """Return the verdicts of a stream's rules over time; where no batch is new, of those alone that time may break."""
    line = judged.timeline
    rules = (rule for rule in line.stream.time_rules if line.batches or rule.is_of_now)
    return {rule.name: _JUDGES[rule.kind](rule.limits, judged) for rule in rules}


def _batch(
    _: int, accepted: int, late: int, missing: Any, newest_us: int | None, at: datetime | None
) -> Batch:
    behind = (
        None if newest_us is None or at is None else (at - _EPOCH) // timedelta(microseconds=1) - newest_us
    )
    return Batch(accepted or 0, late or 0, dict(missing or ()), behind)


def _new_fields(home: Home, stream: Stream, batches: tuple[int, int]) -> Sequence[str]:
    """Return the fields of new files that are not declared and that no file before had, nor one of the first batch."""
    if not any(rule.new_columns for rule in stream.time_rules):
        return ()
    manifests, (since, through) = ManifestRows(home.manifests(stream.name)), batches
    before, after = (set(manifests.known_after(batch).seen) for batch in (max(since, 1), through))
    times = [name for each in (stream.event_time, stream.arrival_time) if each for name in each.names]
    declared = {
        *times,
        *stream.source.where_fields,
        *(column.path or name for name, column in stream.all_columns.items()),
    }
    # A list or an object is declared with what is read of it.
    inside = {path[:end] for path in declared for end, mark in enumerate(path) if mark == "."}
    return sorted(after - before - declared - inside)


def _days_of(drift: over_time.Drift, now_us: int) -> Sequence[int]:
    """Return the last whole day, and the same weekday of each week before."""
    last = now_us // DAY_US * DAY_US - DAY_US
    return [last - week * over_time.WEEK_US for week in range(drift.weeks + 1)]


def _profile(home: Home, stream: Stream, now_us: int) -> Profile:
    drifts = [rule.drift for rule in stream.time_rules if rule.drift]
    days = {day for drift in drifts for day in _days_of(drift, now_us)}
    read = (read_profile(home, stream.name, day, day + DAY_US) for day in sorted(days))
    return {day: columns for each in read for day, columns in each.items()}


def _level_of(stream: Stream, volume: over_time.Volume) -> int:
    # The configuration is refused without one.
    return over_time.coarsest(stream.levels, volume.per, volume.reach_us) or 1


def _grouping_of(stream: Stream, keys: Sequence[str]) -> int:
    """Return the grouping of fewest keys that has these."""
    having = [number for number, grouping in enumerate(stream.groupings) if {*keys} <= {*grouping}]
    return min(having, key=lambda number: len(stream.groupings[number]))


def _freshness(limits: over_time.Freshness, judged: Judged) -> Verdict:
    line, newest_us = judged.timeline, judged.timeline.extent.newest_us
    if newest_us is None:
        return Verdict(1.0, "no row was ever accepted")
    age_us = line.now_us - newest_us
    clocks = line.stream.clock_bounds
    ahead_us = max(limits.within, clocks.ahead if clocks else 0)
    if age_us < -ahead_us:
        seen = f"it is of {shown(newest_us)}, {_span(-age_us)} ahead of {line.moment}, and hides how old the others are"
        return Verdict(-age_us / _SECOND_US, seen)
    seen = f"it is of {shown(newest_us)}, {_span(max(age_us, 0))} before {line.moment}"
    return Verdict(max(age_us - limits.within, 0) / _SECOND_US, seen)


def _span(microseconds: int) -> str:
    return spelled_duration(microseconds // _SECOND_US * _SECOND_US)


def _volume(limits: over_time.Volume, judged: Judged) -> Verdict:
    line, per = judged.timeline, limits.per
    earliest_us, level = line.extent.earliest_us, _level_of(line.stream, limits)
    if earliest_us is None or not judged.horizons:
        return Verdict(0.0, "there are no rows yet")
    known_us = -(-max(earliest_us, judged.horizons[level - 1]) // per) * per
    end_us = (line.now_us - limits.judged_after) // per * per
    starts = np.arange(max(known_us, end_us - max(limits.over // per, 1) * per), end_us, per)
    if not len(starts):
        return Verdict(0.0, f"none is over yet at {line.moment}")
    counts = _counts(judged, level, limits)
    low, high, usual = _ranges(limits, starts, counts, known_us)
    rows = _rows_at(counts, starts)
    apart = np.maximum(np.maximum(low - rows, rows - high), 0)
    outside = np.flatnonzero(apart)
    worst = outside[np.argsort(-apart[outside], kind="stable")][:NAMED]
    times = f"{len(starts):,} times {_span(per)} from {shown(int(starts[0]))} to {shown(end_us)}"
    seen = f"{len(outside):,} of {times} do not"
    named = (f"{shown(int(starts[at]))} has {rows[at]:,.0f}{usual(int(at))}" for at in worst)
    doubt = int(np.isinf(high).sum()) if limits.learned else 0
    few = (
        f"; {doubt:,} are not judged, with fewer than {over_time.FEWEST_WEEKS} weeks before them"
        if doubt
        else ""
    )
    return Verdict(float(len(outside)), seen + (": " + ", ".join(named) if len(outside) else "") + few)


def _counts(judged: Judged, level: int, limits: over_time.Volume) -> Counter[int]:
    """Return the rows of periods by their start: partial nodes of several files add up."""
    counts = Counter[int]()
    grouping = _grouping_of(judged.timeline.stream, ())
    for row in (row for rows in judged.measured.values() for row in rows):
        if (row["level"], row["grouping"]) == (level, grouping):
            for per, start, count in row.get("periods", ()):
                if per == limits.per:
                    counts[start] += count
    return counts


def _rows_at(counts: Mapping[int, int], starts: npt.NDArray[np.int64]) -> Numbers:
    return np.array([counts.get(start, 0) for start in starts.tolist()], np.float64)


def _ranges(
    limits: over_time.Volume, starts: npt.NDArray[np.int64], counts: Mapping[int, int], known_us: int
) -> tuple[Numbers, Numbers, Callable[[int], str]]:
    """Return the least and the most rows of each period, and how a sentence explains them."""
    size = len(starts)
    if not limits.learned:
        ends = (-np.inf if limits.min is None else limits.min, np.inf if limits.max is None else limits.max)
        return np.full(size, ends[0], np.float64), np.full(size, ends[1], np.float64), lambda _: ""
    low, high = np.full(size, -np.inf), np.full(size, np.inf)
    median, spread, weeks = np.zeros(size), np.zeros(size), np.zeros(size, np.int64)
    for at, start in enumerate(starts.tolist()):
        same = start - over_time.WEEK_US * np.arange(1, over_time.LEARNED_WEEKS + 1)
        same = same[same >= known_us]
        weeks[at] = len(same)
        if len(same) >= over_time.FEWEST_WEEKS:
            rows = _rows_at(counts, same)
            median[at] = np.median(rows)
            # Counts vary by their root at least: a stream that never varied would else fail by one row.
            spread[at] = max(_NORMAL * np.median(np.abs(rows - median[at])), median[at] ** 0.5, 1)
            low[at], high[at] = median[at] + np.array([-1, 1]) * limits.spreads * spread[at]

    def usual(at: int) -> str:
        return f" where {median[at]:,.0f} are usual, with a spread of {spread[at]:,.0f} in {weeks[at]} weeks"

    return low, high, usual


def _silent(limits: over_time.Silent, judged: Judged) -> Verdict:
    line, stream = judged.timeline, judged.timeline.stream
    if judged.rollup is None:
        return Verdict(0.0, "there are no rows yet")
    grouping = _grouping_of(stream, [limits.key])
    nodes = Nodes(len(stream.levels), grouping, (limits.key,), line.now_us - limits.within, limits.masked)
    meeting = judged.meeting(nodes, judged.rollup, limits, "look for silent keys")
    heard, silent, latest = meeting.silent(line.now_us - limits.after)
    seen = f"{silent:,} of {heard:,} heard within {_span(limits.within)} are silent at {line.moment}"
    named = ", ".join(f"{name} since {shown(last)} ({_span(line.now_us - last)})" for name, last in latest)
    return Verdict(float(silent), seen + (f": {named}" if named else ""))


def _late_share(limits: over_time.LateShare, judged: Judged) -> Verdict:
    line = judged.timeline
    own = [batch for batch in line.batches if not line.late_after(batch)]
    late, rows = (sum(getattr(batch, name) for batch in own) for name in ("late", "accepted"))
    left_out = sum(batch.accepted for batch in line.batches) - rows
    return _share(
        late, rows, limits.max, "are late", f"; {left_out:,} more are a backfill" if left_out else ""
    )


def _missing_share(limits: over_time.MissingShare, judged: Judged) -> Verdict:
    own = [batch for batch in judged.timeline.batches if limits.column in batch.missing]
    missing, rows = sum(batch.missing[limits.column] for batch in own), sum(batch.accepted for batch in own)
    return _share(missing, rows, limits.max, "lack it")


def _share(number: int, rows: int, most: float, what: str, more: str = "") -> Verdict:
    share = f" ({number / rows:.2%})" if number else ""
    beyond = max(number - int(most * rows + _ROUNDING), 0)
    return Verdict(beyond, f"{number:,} of {rows:,} new rows {what}{share}{more}", Counts(rows, number))


def _new_columns(limits: over_time.NewColumns, judged: Judged) -> Verdict:
    new = [field for field in judged.timeline.fields if field not in limits.ignore]
    named = ", ".join(field[:_LONGEST] for field in new[:NAMED])
    return Verdict(float(len(new)), f"{len(new):,} fields are new" + (f": {named}" if new else ""))


def _counter_resets(limits: over_time.CounterResets, judged: Judged) -> Verdict:
    line, stream, per = judged.timeline, judged.timeline.stream, limits.per
    if judged.rollup is None:
        return Verdict(0.0, "there are no rows yet")
    level = over_time.finest(stream.levels, per, limits.reach_us) or 1
    since_us = (line.now_us - limits.over) // per * per - per
    nodes = Nodes(
        level, _grouping_of(stream, stream.grouping_keys), stream.grouping_keys, since_us, limits.masked
    )
    meeting = judged.meeting(nodes, judged.rollup, limits, f"look for resets of {limits.column}")
    periods, broken, worst = meeting.falling(limits.column, per, limits.max)
    seen = f"{broken:,} of {periods:,} times {_span(per)} of a meter since {shown(since_us + per)} do not"
    named = ", ".join(f"{name} falls {falls:,} times from {shown(start)} on" for name, start, falls in worst)
    return Verdict(float(broken), seen + (f": {named}" if named else ""))


def _drift(limits: over_time.Drift, judged: Judged) -> Verdict:
    profile, days = judged.timeline.profile, _days_of(limits, judged.timeline.now_us)
    own = {day: profile[day][limits.column] for day in days if limits.column in profile.get(day, ())}
    new, earlier, day = own.pop(days[0], None), list(own.values()), day_text(days[0])
    before = ColumnProfile.combined(earlier) if earlier else None
    if not (new and before and min(new.summary.count, before.summary.count) >= _FEWEST_VALUES):
        return Verdict(0.0, f"{day}, or that weekday before, has fewer than {_FEWEST_VALUES} values")
    shares = _shares(before, new)
    worst = shares.worst
    name = shares.names[worst]
    name = repr(form_of(name, _LONGEST)) if limits.masked and before.summary.low is None else name
    seen = (
        f"on {day} it is {shares.index:.2f} from {len(earlier)} such days before; most by {name}: "
        f"{shares.new[worst]:.1%} of the values, {shares.before[worst]:.1%} before"
    )
    return Verdict(max(shares.index - limits.max, 0.0), seen)


def _shares(before: ColumnProfile, new: ColumnProfile) -> Shares:
    if before.summary.low is not None:
        return shares_of_numbers(before.summary, new.summary)
    return shares_of_values(*((each.frequent, each.summary.count) for each in (before, new)))


_JUDGES: Mapping[str, Callable[[Any, Judged], Verdict]] = {
    "freshness": _freshness,
    "volume": _volume,
    "silent": _silent,
    "late_share": _late_share,
    "missing_share": _missing_share,
    "new_columns": _new_columns,
    "counter_resets": _counter_resets,
    "drift": _drift,
}
