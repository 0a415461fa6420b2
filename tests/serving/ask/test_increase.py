"""The increase of counters by SQL and Python: as the pure tree says it, and never without the truth in its interval."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.rollup.levels import Level
from lakehouse.serving.ask.ask import ask
from lakehouse.serving.ask.macros import answer
from lakehouse.serving.ask.question import AskError, Question
from lakehouse.serving.ask.series import series, series_by
from lakehouse.serving.publish.publish import publish
from lakehouse.serving.publish.snapshot import ChangedNodes, PublishedMeasure, StreamSnapshot
from lakehouse.serving.sandbox.sandbox import PublishedReader, open_published
from lakehouse.storage.layout import Home
from tests.oracles.rollup.counter import CounterTree
from tests.oracles.rollup.counter_scan import CounterScan
from tests.serving.streams import write_delta

LEVELS = (Level(3, 60), Level(15, 300), Level(60, None))
METERS = ("a", "b", None)
SPAN = 1000
COLUMNS = ("n", "first_us", "last_us", "max", "first", "last", "drops_low", "drops_high")
Batch = list[tuple[int, str | None, float]]


@dataclass(frozen=True)
class Meters:
    """Readings in batches, the third of them late, and the pure trees that took them."""

    measure: PublishedMeasure
    batches: list[Batch]
    trees: dict[str | None, CounterTree] = field(default_factory=dict)

    def write(self, folder: Path) -> StreamSnapshot:
        """Write the trees' nodes and the raw rows; return what a publisher is told."""
        name, rows = self.measure.name, []
        for meter in METERS:
            tree = self.trees[meter] = CounterTree(LEVELS)
            for batch in self.batches:
                own = [(time, value) for time, key, value in batch if key == meter]
                newest = max(time for time, _, _ in batch)
                tree.insert_batch([*(t for t, _ in own), newest], [*(v for _, v in own), float("nan")])
            for number in range(len(LEVELS)):
                for node in tree.nodes(number):
                    parts = {f"{name}__{part}": node[part].item() for part in COLUMNS}
                    least = {f"{name}__min": 0.0, f"{name}__sum": 0.0, f"{name}__carry": 0.0}
                    place = {
                        "level": number + 1,
                        "grouping": 0,
                        "device": meter,
                        "start_us": int(node["start"]),
                    }
                    times = {
                        "rows": parts[f"{name}__n"],
                        "first_us": place["start_us"],
                        "last_us": place["start_us"],
                    }
                    rows.append({**place, **times, **parts, **least})
        (folder / "nodes").mkdir(parents=True)
        (folder / "raw").mkdir()
        pq.write_table(pa.Table.from_pylist(rows), folder / "nodes" / "part-0.parquet")
        every = [(time, key, value, 1) for batch in self.batches for time, key, value in batch]
        columns = zip(*every, strict=True)
        write_delta(
            pa.table(dict(zip(("event_us", "device", name, "batch"), map(list, columns), strict=True))),
            folder / "raw",
        )
        times_of_all = [time for time, _, _, _ in every]
        return StreamSnapshot(
            name=name,
            definition="meters",
            groupings=(("device",),),
            measures=(self.measure,),
            levels=LEVELS,
            horizons=self.trees["a"].horizons,
            newest_us=max(times_of_all),
            confirmed_us=max(times_of_all),
            batch=1,
            latest_us=0,
            raw_path=str(folder / "raw"),
            nodes=folder / "nodes",
            earliest_us=min(times_of_all),
        )

    def truth(self, start: int, end: int, meters: tuple[str | None, ...]) -> float:
        """Return the sum of the meters' increases over the readings themselves."""
        total = 0.0
        for meter in meters:
            scan = CounterScan()
            own = [(time, value) for batch in self.batches for time, key, value in batch if key == meter]
            scan.insert_batch([time for time, _ in own], [value for _, value in own])
            total += scan.increase(start, end)
        return total


def random_meters(seed: int, measure: PublishedMeasure, digits: int) -> Meters:
    dice, batches = random.Random(seed), []
    at = dict.fromkeys(METERS, 50.0)
    every: Batch = []
    for time in sorted(dice.randrange(SPAN) for _ in range(300)):
        meter = dice.choice(METERS)
        at[meter] = 0.0 if dice.random() < 0.04 else round(at[meter] + dice.random() * 9, digits)
        every.append((time, meter, at[meter]))
    late = [row for row in every if dice.random() < 0.1]
    kept = [row for row in every if row not in late]
    batches = [kept[:150], kept[150:], late]
    return Meters(measure, batches)


@dataclass(frozen=True)
class Published:
    """A published home of two streams of meters; no repr, as hypothesis would print its every row."""

    home: Home
    meters: dict[str, Meters] = field(repr=False)
    reader: PublishedReader = field(repr=False)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Published]:
    root: Path = tmp_path_factory.mktemp("meters")
    kinds = (PublishedMeasure("volume", "double", None, True), PublishedMeasure("pulses", "int", 0, True))
    meters = {kind.name: random_meters(place, kind, 3 * (1 - place)) for place, kind in enumerate(kinds)}
    home = Home(root / "home")
    publish(home, [found.write(root / name) for name, found in meters.items()])
    with open_published(home) as reader:
        yield Published(home, meters, reader)


COUNTERS = """
    SELECT key_values, counter_nodes.* EXCLUDE (slot), slot // 4294967296 - first_slot // 4294967296 AS level
    FROM counter_nodes JOIN ladder ON slot // 4294967296 = first_slot // 4294967296
    JOIN series ON series_rank = slot - first_slot ORDER BY ALL
"""


def come(meters: Meters, count: int, folder: Path) -> tuple[StreamSnapshot, StreamSnapshot]:
    """Return what is told of the first batches: all nodes, and those that came with the last of them."""
    known = Meters(meters.measure, meters.batches[:count])
    anew = replace(known.write(folder / "anew"), batch=count)
    part = Meters(meters.measure, [meters.batches[count - 1]]).write(folder / "part").nodes
    assert part is not None
    changed = ChangedNodes(count - 1, sorted(part.glob("*.parquet")), ())
    return anew, replace(anew, nodes=None, changed=changed)


@pytest.mark.slow
@pytest.mark.parametrize("digits", [0, 3])
def test_counters_of_nodes_that_changed_are_joined_with_what_they_were(tmp_path: Path, digits: int) -> None:
    kind = (
        PublishedMeasure("volume", "double", None, True)
        if digits
        else PublishedMeasure("volume", "int", 0, True)
    )
    meters, home, other = random_meters(3, kind, digits), Home(tmp_path / "home"), Home(tmp_path / "anew")
    for count in (1, 2, 3):
        anew, changed = come(meters, count, tmp_path / str(count))
        publish(home, [changed if count > 1 else anew])
        publish(other, [anew], in_full=True)
        with open_published(home) as shared, open_published(other) as again:
            found, expected = (each.connection.execute(COUNTERS).fetchall() for each in (shared, again))
        assert len(found) > 90 and found == expected
    for meter in METERS:
        (answered,) = ask(home, "volume", "volume", "increase", 100, 900, {"device": meter})
        assert (answered.low or 0) <= meters.truth(100, 900, (meter,)) <= (answered.high or 0)


times = st.integers(-20, SPAN + 20)


@pytest.mark.slow
@settings(deadline=None, max_examples=150)
@given(name=st.sampled_from(["volume", "pulses"]), one=times, other=times, meter=st.sampled_from(METERS))
def test_one_meter_is_answered_as_the_pure_tree_does(
    published: Published, name: str, one: int, other: int, meter: str | None
) -> None:
    start, end = min(one, other), max(one, other) + 1
    meters = published.meters[name]

    (found,) = answer(
        published.reader.connection, Question(name, name, "increase", start, end, {"device": meter}, ())
    )

    known, truth = meters.trees[meter].increase(start, end), meters.truth(start, end, (meter,))
    assert found.exact == known.exact
    if not found.rows_high:
        assert (found.value, found.low, found.high) == (None, None, None)
        assert (known.value, known.low, known.high, truth) == (0, 0, 0, 0)
        return
    assert (found.value, found.low, found.high) == pytest.approx(
        (known.value, known.low, known.high), rel=1e-12, abs=1e-8
    )
    assert found.low is not None and found.high is not None
    assert found.low <= truth <= found.high
    if found.exact and meters.measure.decimals is not None:
        assert found.low == found.value == found.high == truth
        assert found.exact_value == str(int(truth))


@settings(deadline=None, max_examples=60)
@given(name=st.sampled_from(["volume", "pulses"]), one=times, other=times)
def test_meters_add_up(published: Published, name: str, one: int, other: int) -> None:
    start, end = min(one, other), max(one, other) + 1
    meters = published.meters[name]

    (total,) = ask(published.reader, name, name, "increase", start, end)
    parts = ask(published.reader, name, name, "increase", start, end, by=["device"])

    assert (total.low or 0) <= meters.truth(start, end, METERS) <= (total.high or 0)
    assert sum(part.value or 0 for part in parts) == pytest.approx(total.value or 0)
    assert (total.value is None) == (not parts)
    assert sum(part.rows_high or 0 for part in parts) == total.rows_high
    assert {part.key["device"] for part in parts} <= set(METERS)


# Each example loads DuckDB's reader of Delta tables: a third of a second.
@pytest.mark.slow
@settings(deadline=None, max_examples=24)
@given(name=st.sampled_from(["volume", "pulses"]), one=times, other=times, meter=st.sampled_from(METERS))
def test_exact_reads_the_readings(
    published: Published, name: str, one: int, other: int, meter: str | None
) -> None:
    start, end = min(one, other), max(one, other) + 1

    (found,) = ask(published.reader, name, name, "increase", start, end, {"device": meter}, exact=True)

    low, high = found.low or 0, found.high or 0
    assert found.exact and low <= published.meters[name].truth(start, end, (meter,)) <= high
    assert high - low < 1e-9 and (found.value is None) == (not found.rows)


def test_sql_says_the_same_and_a_chart_holds_each_bucket(published: Published) -> None:
    row = published.reader.connection.execute(
        "SELECT value, low, high, rows, nodes_read FROM range_increase('volume', 'volume', make_timestamp(100), "
        "make_timestamp(900), keys := {device: 'a'})"
    ).fetchone()
    (found,) = ask(published.reader, "volume", "volume", "increase", 100, 900, {"device": "a"})
    drawn = series(published.reader, "volume", "volume", "increase", 0, SPAN, 7, {"device": "b"})

    assert row == (found.value, found.low, found.high, found.rows, found.nodes_read)
    rows = published.reader.connection.execute(
        "SELECT value, low, high FROM increase_series('volume', 'volume', make_timestamp(0), "
        f"make_timestamp({SPAN}), 7, keys := {{device: 'b'}})"
    ).fetchall()
    assert rows == [(bucket.value, bucket.low, bucket.high) for bucket in drawn.buckets]
    for bucket in drawn.buckets:
        really = published.meters["volume"].truth(bucket.from_us, bucket.to_us, ("b",))
        assert (bucket.low or 0) <= really <= (bucket.high or 0)


@settings(deadline=None, max_examples=30)
@given(
    name=st.sampled_from(["volume", "pulses"]),
    one=times,
    other=times,
    points=st.integers(1, 9),
)
def test_a_chart_by_meter_has_what_each_meter_alone_has(
    published: Published, name: str, one: int, other: int, points: int
) -> None:
    start, end = min(one, other), max(one, other) + 1

    found = series_by(published.reader, name, name, "increase", ["device"], start, end, points)

    answers = ask(published.reader, name, name, "increase", start, end, by=["device"])
    assert [drawn.key for drawn in found] == [alone.key for alone in answers]
    for drawn in found:
        alone = series(published.reader, name, name, "increase", start, end, points, drawn.key)
        assert drawn.buckets == alone.buckets
        for bucket in drawn.buckets:
            really = published.meters[name].truth(bucket.from_us, bucket.to_us, (drawn.key["device"],))
            assert (bucket.low or 0) <= really <= (bucket.high or 0)


def test_no_reading_is_no_increase(published: Published) -> None:
    (found,) = ask(published.reader, "volume", "volume", "increase", SPAN + 500, SPAN + 600)

    assert (found.value, found.low, found.high, found.exact, found.rows) == (None, None, None, True, 0)
    assert ask(published.reader, "volume", "volume", "increase", SPAN + 500, SPAN + 600, by=["device"]) == []


def test_between_the_two_readings_of_a_node_a_meter_has_no_increase_by_key_or_alone(
    published: Published,
) -> None:
    """Alone it had its share of the step across the range, by key it was left out: no sum over meters was right."""
    found = 0
    for name, meters in published.meters.items():
        for meter, tree in meters.trees.items():
            # Nodes of the top level older than all others have no finer ones that could tell more.
            top = tree.nodes(2)
            for node in top[(top["n"] == 2) & (top["start"] < tree.horizons[1])]:
                start, end = int(node["first_us"]) + 1, int(node["last_us"])
                if start < end:
                    alone = ask(published.reader, name, name, "increase", start, end, {"device": meter})
                    by_key = ask(published.reader, name, name, "increase", start, end, by=["device"])
                    assert (alone[0].value, alone[0].high, alone[0].rows_high) == (None, None, 0)
                    assert meter not in [one.key["device"] for one in by_key]
                    found += 1
    assert found


def test_only_counters_have_an_increase(published: Published) -> None:
    asked: dict[str, Any] = {"stream": "volume", "measure": "*", "agg": "increase", "start": 0, "end": 9}
    with pytest.raises(AskError, match="counts rows"):
        ask(published.reader, **asked)
    with pytest.raises(Exception, match="only a measure declared a counter has an increase"):
        published.reader.connection.execute(
            "FROM range_increase('volume', '*', make_timestamp(1), make_timestamp(5))"
        ).fetchall()


def test_a_counter_is_asked_for_its_increase_and_its_readings_are_not_added_up(published: Published) -> None:
    assert ask(published.reader, "volume", "volume", None, 0, SPAN) == ask(
        published.reader, "volume", "volume", "increase", 0, SPAN
    )
    assert series(published.reader, "volume", "volume", None).question.aggregate == "increase"
    with pytest.raises(AskError, match="volume of volume is a counter, whose readings do not add up"):
        ask(published.reader, "volume", "volume", "sum", 0, SPAN)
    with pytest.raises(Exception, match="readings of a counter do not add up"):
        published.reader.connection.execute(
            "FROM range_sum('volume', 'volume', make_timestamp(1), make_timestamp(5))"
        ).fetchall()
