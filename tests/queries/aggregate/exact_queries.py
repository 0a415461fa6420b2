"""Random aggregates over whole numbers, decimals and doubles, from the text of a query to its answers."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.join_aggregate.choice import methods_for
from lakehouse.algorithms.join_aggregate.contract import Partials
from lakehouse.queries.aggregate.answers import NEW, Adding, with_earlier
from lakehouse.queries.aggregate.bucket import HeldAggregate, part_rows
from lakehouse.queries.aggregate.query import AggregateQuery, shape_of
from lakehouse.queries.aggregate.repair import BucketRepairs
from lakehouse.queries.aggregate.rows import is_used, side_rows
from lakehouse.queries.aggregate.run import AggregateRun
from lakehouse.queries.aggregate.value_codes import BucketCodes
from lakehouse.queries.runtime.source import RowSource
from lakehouse.queries.runtime.tasks.bucket import Left, Segment
from lakehouse.spark.ddl import schema_of
from tests.oracles.queries.exact_aggregates import SIGNS, Having, Measure, answers, near, same
from tests.queries.declared_streams import aggregate_of
from tests.queries.exact_rows import SCALES, STREAMS, Row, Source, raw, value_of

SECOND = 10**6
WINDOWS, EVERY = (3 * SECOND, 5 * SECOND, 4 * SECOND), 2 * SECOND
PAIR = "a [3 SECONDS], b [5 SECONDS] WHERE a.k = b.k"
CHAIN = "a [3 SECONDS], b [5 SECONDS], c [4 SECONDS] WHERE a.k = b.k AND b.n = c.n"
METHODS = ("factorised", "view_tree", "multiway", "tuple_count", "incremental", "materialised")


@dataclass
class Kept:
    """A query kept current over buckets in memory, each batch by a process of its own where ``restarts``."""

    query: AggregateQuery
    buckets: int
    restarts: bool = False

    def __post_init__(self) -> None:
        self.shape = shape_of(self.query)
        self.adding = Adding.of(self.query, self.shape, STREAMS)
        self.held = [HeldAggregate(self.query, self.shape) for _ in range(self.buckets)]
        self.left = [Left({}, ()) for _ in range(self.buckets)]
        self.seen: list[list[pa.Table]] = [[] for _ in range(self.buckets)]
        self.horizons: dict[int, int] = {}
        groups = [each.name for each in self.query.groups]
        self.names = ["tick_us", *groups]
        none = self.adding(self._parts([]))
        self.answers = none.append_column("part_bucket", pa.array([], pa.int64()))

    def batch(self, rows: Sequence[Sequence[Row]], until_us: int | None) -> None:
        """Take rows in and answer the ticks up to a time."""
        source = cast(RowSource, Source(tuple(map(raw, rows))))
        sides = side_rows(source, self.query, STREAMS, self.buckets)
        batches = [each for side in sides for each in side.rows.batches(["f"])]
        both = pa.Table.from_batches([each.cast(batches[0].schema) for each in batches])
        parts = []
        for bucket in range(self.buckets):
            own = both.filter(pa.array(both["bucket"].to_numpy() == bucket)).combine_chunks()
            used = own.filter(pa.array(is_used(own)))
            number = len(self.seen[bucket])
            taken = pa.repeat(pa.scalar(number, pa.int64()), used.num_rows)
            self.seen[bucket].append(used.append_column("taken", taken))
            if self.restarts and self.left[bucket].counters:
                self.held[bucket] = HeldAggregate(self.query, self.shape)
                self.held[bucket].catch_up(self.left[bucket].counters, self.left[bucket].segments)
            held = self.held[bucket]
            outcome, change = held.process(used, until_us)
            kept: list[Segment] = [
                each for each in self.left[bucket].segments if each.leave_us >= change.alive_from[each.part]
            ]
            self.left[bucket] = Left(change.counters, (*kept, *change.segments))
            if len(outcome.log):
                self.horizons[number] = int(outcome.log.horizon_us[0])
            for partials in (outcome.answered, outcome.revised):
                parts.append(self._of(partials, held.codes, bucket))
        self._add(self._parts(parts))

    def repair(self) -> None:
        """Add what logged rows lack."""
        schema = schema_of(AggregateRun.columns(cast(Any, Columned(self.query, self.shape))))
        repair = BucketRepairs(self.query, self.shape, schema, self.horizons, 0)
        parts = []
        for bucket in range(self.buckets):
            answer = repair(bucket, pa.concat_tables(self.seen[bucket]))
            if answer is not None:
                found = answer.filter(pc.equal(answer["kind"], "part"))
                parts.append(found.append_column("part_bucket", pa.repeat(bucket, found.num_rows)))
        self._add(self._parts(parts))

    def shown(self) -> dict[tuple[int, Any], tuple[list[Any], bool]]:
        """Return the newest answers."""
        newest: dict[tuple[int, Any], Row] = {}
        for row in self.answers.to_pylist():
            at = row["tick_us"], row["g"]
            if at not in newest or newest[at]["revision"] < row["revision"]:
                newest[at] = row
        names = [each.name for each in self.query.measures if each.is_shown]
        return {at: ([row[name] for name in names], row["holds"]) for at, row in newest.items()}

    def _of(self, partials: Partials, codes: BucketCodes, bucket: int) -> pa.Table:
        rows = part_rows(self.query, partials, codes)
        return rows.append_column("part_bucket", pa.repeat(bucket, rows.num_rows))

    def _parts(self, parts: list[pa.Table]) -> pa.Table:
        fields = {name: pa.int64() for name in ("revision", "part_bucket")}
        kinds = {each.name: each.type for each in self.adding.schema} | fields
        names = [*self.adding.read, *(name for name in self.names if name != "tick_us")]
        columns = {
            name: pa.chunked_array(
                [
                    chunk.cast(kinds[name])
                    for part in parts
                    if part.num_rows
                    for chunk in (
                        pa.chunked_array([pa.repeat(NEW, part.num_rows)])
                        if name == "revision"
                        else part[name if name in part.column_names else f"g_{name}"]
                    ).chunks
                ],
                kinds[name],
            )
            for name in names
        }
        return pa.table(columns)

    def _add(self, new: pa.Table) -> None:
        if not new.num_rows:
            return
        earlier = self.answers.select(new.column_names).cast(new.schema)
        found = self.adding(with_earlier(new, earlier, self.names))
        found = found.append_column("part_bucket", pa.repeat(-1, found.num_rows).cast(pa.int64()))
        self.answers = pa.concat_tables([self.answers, found.select(self.answers.column_names)])


@dataclass(frozen=True)
class Columned:
    """What the columns of a run are made of."""

    query: AggregateQuery
    shape: Any
    streams: Any = field(default_factory=lambda: STREAMS)


def rows_of(drawn: random.Random, count: int, many: int) -> list[list[Row]]:
    """Return rows of so many sides within some seconds, in the order in which they come."""
    sides: list[list[Row]] = [[] for _ in range(many)]
    for line in range(count):
        row = {
            name: value_of(drawn, name, 0, 0.0 if name in ("n", "d") else 0.5, 10**36 - 1) for name in SCALES
        }
        row |= {"g": drawn.choice(["u", "v", None]), "k": drawn.choice([0, 1, 2, None])}
        if many > 2:
            # Few of three rows would meet otherwise.
            row |= {"k": drawn.choice([0, 0, 0, 1, None]), "n": drawn.choice([1, 1, 1, 2, None])}
        row |= {"event_us": drawn.randint(0, 12 * SECOND), "line": line}
        drawn.choice(sides).append(row)
    return sides


def measures_of(drawn: random.Random, many: int) -> list[Measure]:
    """Return some measures, each once."""
    functions = ["sum", "avg", "count", *(["min", "max"] if many == 2 or drawn.random() < 0.5 else [])]
    found: set[Measure] = {("count", 0, None)}
    for _ in range(drawn.randint(1, 5)):
        found.add((drawn.choice(functions), drawn.randint(0, many - 1), drawn.choice(list(SCALES))))
    return sorted(found, key=repr)


def spelled(measure: Measure) -> str:
    function, side, column = measure
    return f"{function}(*)" if column is None else f"{function}({'abc'[side]}.{column})"


def having_of(drawn: random.Random, measures: Sequence[Measure]) -> tuple[str, Having] | None:
    """Return a condition on an exact measure, with a bound near what it can be."""
    exact = [each for each in measures if each[2] is None or SCALES[each[2]] is not None]
    measure = drawn.choice(exact)
    numerator, digits = drawn.randint(-40, 40), drawn.randint(0, 3)
    if drawn.random() < 0.3:
        numerator, digits = drawn.choice([2**53 + 1, 10**18 - 1, 3 * 10**19 + 1]), drawn.choice([0, 1, 6])
    sign, bound = drawn.choice(sorted(SIGNS)), Fraction(numerator, 10**digits)
    return f"{spelled(measure)} {sign} {Decimal(f'{numerator}E-{digits}'):f}", (measure, sign, bound)


def query_of(
    measures: Sequence[Measure], having: str | None, method: str | None, slack: int, joined: str = PAIR
) -> AggregateQuery:
    shown = ", ".join(f"{spelled(each)} AS m{number}" for number, each in enumerate(measures))
    text = (
        f"SELECT a.g, {shown} FROM {joined} GROUP BY a.g"
        f"{f' HAVING {having}' if having else ''} EVERY 2 SECONDS"
        f"{f' SLACK {slack} SECONDS' if slack else ''}"
    )
    query = aggregate_of("q", text, STREAMS)
    able = {name for name, why_not in methods_for(shape_of(query)) if why_not is None}
    return replace(query, method=method) if method in able else query  # type: ignore[arg-type]


def is_double(measure: Measure) -> bool:
    return measure[0] in ("sum", "avg") and measure[2] is not None and SCALES[measure[2]] is None


def wrong(seed: int, joined: str = PAIR) -> str | None:
    """Return what is wrong with the answers of a random query over random rows, None for nothing."""
    drawn = random.Random(seed)
    many = 3 if joined == CHAIN else 2
    measures = measures_of(drawn, many)
    asked = having_of(drawn, measures) if drawn.random() < 0.7 else None
    method = drawn.choice([*METHODS, None])
    query = query_of(measures, asked[0] if asked else None, method, drawn.choice([0, 2, 100]), joined)
    kept = Kept(query, drawn.choice([1, 2]), restarts=drawn.random() < 0.5)
    sides, until = rows_of(drawn, drawn.randint(2, 24) * many // 2, many), 0
    order = sorted(
        ((side, row) for side in range(many) for row in sides[side]),
        key=lambda each: cast(int, each[1]["line"]),
    )
    while order:
        size = drawn.choice([1, 1, 5, len(order)])
        part, order = order[:size], order[size:]
        until = 20 * SECOND if not order else drawn.randint(until, 14 * SECOND)
        own = cast(Any, tuple([row for side, row in part if side == number] for number in range(many)))
        kept.batch(own, until)
    kept.repair()
    ticks, windows = range(0, 20 * SECOND + 1, EVERY), WINDOWS[:many]
    expected = answers(sides, windows, ticks, measures, asked[1] if asked else None, ("k", "n"))
    found = kept.shown()
    if found.keys() != expected.keys():
        return f"{seed}: {query.definition()}: ticks and groups differ"
    for at, (values, holds) in expected.items():
        shown, is_shown = found[at]
        for measure, one, two in zip(measures, shown, values, strict=True):
            is_rounded = is_double(measure) and one is not None and two is not None
            if not (near if is_rounded else same)(one, two):
                return f"{seed}: {query.definition()} {query.method}: {at}, {measure}: {one}, not {two}"
        if holds != is_shown:
            return f"{seed}: {query.definition()} {query.method}: {at} holds: {is_shown}, not {holds}"
    return None
