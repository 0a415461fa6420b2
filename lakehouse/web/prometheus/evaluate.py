"""A query of ranges at one time or at many -> series of samples, each as ``ask`` would answer its range.

Ranges of neighbouring times may overlap, and the macros take ranges that touch: so every m-th range is asked at
once, in m rounds, where m is how many steps a range is long.

``ALERTS`` is 1 while an alarm of a registered query is raised; the query is ``alertname``, its groups are labels.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from lakehouse.serving.ask.doubt import doubts
from lakehouse.serving.ask.macros import answer, prepared
from lakehouse.serving.ask.question import INCREASE, Question, check, withheld_of
from lakehouse.serving.literals import name, text
from lakehouse.serving.sandbox.sandbox import PublishedReader
from lakehouse.web.prometheus.metrics import Metric, bounds_of, matching, metric
from lakehouse.web.prometheus.promql import BOUNDS, AlertsQuestion, Matcher, PromqlRefused, RangeQuestion

MOST_SERIES = 100
MOST_TIMES = 11_000
# A range that is longer than so many steps would be asked in more rounds than anybody waits for.
MOST_ROUNDS = 60
_MOST = 10_000


@dataclass
class Samples:
    """One series: its labels, and times in microseconds with values."""

    labels: dict[str, str]
    points: list[tuple[int, float]] = field(default_factory=list)


@dataclass
class Found:
    """Series, and what a reader must know of them."""

    series: list[Samples]
    warnings: list[str]


def evaluated(
    reader: PublishedReader,
    asked: RangeQuestion,
    times_us: Sequence[int],
    streams: tuple[str, ...] | None = None,
) -> Found:
    """Return the samples of a query at some evenly spaced times; ``streams`` may be named to who asks, None for all.

    Raises PromqlRefused when the metric, a label or so many series or rounds cannot be answered; AskError as ``ask``.
    """
    of = metric(reader, asked.metric, streams)
    keys = _key_matchers(of, asked)
    bounds = _bounds(reader, asked.matchers)
    by = _by(of, asked, keys)
    where = {one.label: one.value or None for one in keys if one.operator == "=" and one.label not in by}
    span = times_us[0] - asked.offset_us - asked.range_us, times_us[-1] - asked.offset_us
    question = Question(of.stream, of.measure, asked.aggregate, *span, where, by)
    check(reader.connection, question)
    labels = _labels(reader, question, keys)
    tally = _Tally()
    series = {(key, bound): Samples(_shown(dict(key), asked, bound)) for key in labels for bound in bounds}
    for row in _rows(reader, question, asked, times_us, labels):
        tally.add(row)
        for bound in bounds:
            value = getattr(row, bound)
            if value is not None:
                series[row.key, bound].points.append((row.to_us + asked.offset_us, value))
    filled = [one for one in series.values() if one.points]
    for one in filled:
        one.points.sort()
    withheld = withheld_of(reader.connection, of.stream)
    because = [*tally.warnings(), *doubts(reader.connection, question)]
    return Found(filled, [*because, *([withheld] if withheld else [])])


_Key = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True)
class _Row:
    key: _Key
    to_us: int
    value: float | None
    low: float | None
    high: float | None
    final: bool


@dataclass
class _Tally:
    """Tally of all samples, for warnings."""

    samples: int = 0
    open: int = 0
    widest: float = 0.0
    endless: int = 0

    def add(self, row: _Row) -> None:
        self.samples += 1
        self.open += not row.final
        if row.low is None or row.high is None:
            self.endless += 1
        elif row.value and row.high > row.low:
            self.widest = max(self.widest, (row.high - row.low) / abs(row.value))

    def warnings(self) -> list[str]:
        said = []
        if self.open:
            said.append(f"{self.open} of {self.samples} samples are not final: late rows may still come")
        if self.widest > 1e-9:
            said.append(
                f'widest interval: {self.widest:.2%} of its value; bound=~"low|high" shows both sides'
            )
        if self.endless:
            said.append(f"{self.endless} samples have no sure interval")
        return said


def _key_matchers(of: Metric, asked: RangeQuestion) -> list[Matcher]:
    for label in (*(one.label for one in asked.matchers), *(asked.by or ())):
        if label not in (*of.keys, "bound"):
            raise PromqlRefused(f"{of.name} has no label {label!r}; it has {', '.join((*of.keys, 'bound'))}")
    return [one for one in asked.matchers if one.label != "bound"]


def _bounds(reader: PublishedReader, matchers: tuple[Matcher, ...]) -> list[str]:
    of_bound = tuple(one for one in matchers if one.label == "bound")
    allowed = matching(reader, [{"bound": one} for one in BOUNDS], of_bound)
    return bounds_of(matchers, [one["bound"] for one in allowed])


def _by(of: Metric, asked: RangeQuestion, keys: Sequence[Matcher]) -> tuple[str, ...]:
    """Return the keys to answer by: those named, or all; a key that is matched by more than = must be among them."""
    if asked.by is None:
        labels = [one.label for one in keys]
        chosen = of.apart(of.keys if asked.aggregate == INCREASE else labels)
        if chosen is None:
            raise PromqlRefused(f"no grouping of {of.stream} holds {', '.join(labels or of.keys)} together")
        return chosen[1]
    by = tuple(one for one in asked.by if one != "bound")
    for one in keys:
        if one.operator != "=" and one.label not in by:
            raise PromqlRefused(
                f"{one.label}{one.operator} goes with by ({one.label}): series are told apart first, then matched"
            )
    return by


def _labels(reader: PublishedReader, question: Question, keys: Sequence[Matcher]) -> list[_Key]:
    """Return the keys that have rows in the range and match, refusing more than can be shown."""
    if not question.by:
        return [()]
    fixed = {one.label: one.value or None for one in keys if one.operator == "="}
    if set(question.by) <= set(fixed):
        return [tuple((name, fixed[name]) for name in question.by)]
    aggregate = INCREASE if question.aggregate == INCREASE else "count"
    most = 10 * MOST_SERIES
    counted = replace(question, aggregate=aggregate, limit=most + 1)
    found = [one.key for one in answer(reader.connection, counted)]
    labels = [{name: value for name, value in key.items() if value is not None} for key in found]
    kept = matching(reader, labels, tuple(keys))
    if len(kept) > MOST_SERIES or len(found) > most:
        raise PromqlRefused(
            f"more than {MOST_SERIES} series: narrow them with matchers, or add them up with sum by (...)"
        )
    return [tuple((name, one.get(name)) for name in question.by) for one in kept]


def _shown(key: dict[str, str | None], asked: RangeQuestion, bound: str) -> dict[str, str]:
    fixed = {
        one.label: one.value
        for one in asked.matchers
        if asked.by is None and one.operator == "=" and one.label != "bound" and one.value
    }
    labels = fixed | {name: value for name, value in key.items() if value is not None}
    is_said = any(one.label == "bound" for one in asked.matchers)
    return labels | ({"bound": bound} if is_said else {})


def _rows(
    reader: PublishedReader,
    question: Question,
    asked: RangeQuestion,
    times_us: Sequence[int],
    labels: Sequence[_Key],
) -> Iterator[_Row]:
    ends = [time - asked.offset_us for time in times_us]
    step = ends[1] - ends[0] if len(ends) > 1 else asked.range_us
    rounds = -(-asked.range_us // step)
    if rounds > MOST_ROUNDS and len(ends) > MOST_ROUNDS:
        raise PromqlRefused(
            f"the range is {rounds} steps long, and at most {MOST_ROUNDS} are answered: "
            "take a longer step, or a shorter range"
        )
    wanted = set(labels)
    for first in range(min(rounds, len(ends))):
        for row in _round(reader, question, asked.range_us, ends[first::rounds]):
            if row.key in wanted:
                yield row


def _round(reader: PublishedReader, question: Question, range_us: int, ends: Sequence[int]) -> Iterator[_Row]:
    """Answer ranges that do not overlap; between two of them may be a gap, which is asked along and left out."""
    edges = sorted({edge for end in ends for edge in (end - range_us, end)})
    columns = "key, from_us, to_us, value, low, high, final, coalesce(rows_high, rows)"
    done = reader.connection.execute(prepared(reader.connection, question, edges, columns, True, ""))
    asked = set(ends)
    while rows := done.fetchmany(10_000):
        for key, from_us, to_us, value, low, high, final, some, _ in rows:
            # A range without any row has no sample, as in Prometheus.
            if to_us in asked and to_us - from_us == range_us and some:
                yield _Row(tuple((name, key[name]) for name in question.by), to_us, value, low, high, final)


def alerts(reader: PublishedReader, asked: AlertsQuestion, times_us: Sequence[int]) -> Found:
    """Return a series for each group that had an alarm at one of the times."""
    found: dict[tuple[tuple[str, str], ...], Samples] = {}
    queries = reader.connection.execute(
        """SELECT query, "groups" FROM queries WHERE 'alarms_' || query IN (SELECT view_name FROM duckdb_views())"""
    ).fetchall()
    for query, groups in queries:
        for values, raised, cleared in _alarms(reader, query, groups, times_us):
            labels = {"__name__": "ALERTS", "alertname": query, "alertstate": "firing"}
            labels |= {group: value for group, value in zip(groups, values, strict=True) if value is not None}
            one = found.setdefault(tuple(sorted(labels.items())), Samples(labels))
            one.points += [(t, 1.0) for t in times_us if raised <= t and (cleared is None or t < cleared)]
    series = [one for one in found.values() if one.points]
    kept = {
        tuple(sorted(one.items())) for one in matching(reader, [s.labels for s in series], asked.matchers)
    }
    return Found([one for one in series if tuple(sorted(one.labels.items())) in kept], [])


def _alarms(
    reader: PublishedReader, query: str, groups: Sequence[str], times_us: Sequence[int]
) -> list[tuple[list[str | None], int, int | None]]:
    values = ", ".join(f"{name(group)}::VARCHAR" for group in groups)
    rows = reader.connection.execute(
        f"""
        SELECT [{values}]::VARCHAR[], raised_us, cleared_us FROM {name(f"alarms_{query}")}
        WHERE state <> {text("withdrawn")} AND raised_us <= {times_us[-1]}
            AND coalesce(cleared_us > {times_us[0]}, true)
        ORDER BY raised_us LIMIT {_MOST}
        """
    ).fetchall()
    return [(row[0], row[1], row[2]) for row in rows]
