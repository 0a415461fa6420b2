"""One rule, three engines against one table of cases.

Nodes are folded in Arrow. A range is answered by the macros and by the pure tree.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from lakehouse.algorithms.rollup.levels import Level, horizons
from lakehouse.algorithms.rollup.rounding import EPS, NAMED, SUM_ROUNDING
from lakehouse.config.stream import Stream
from lakehouse.rollup.nodes import folder_of
from lakehouse.serving.ask.macros import answer
from lakehouse.serving.ask.question import Answer, Question
from lakehouse.serving.publish.macros import macros
from lakehouse.serving.publish.publish import publish
from lakehouse.serving.publish.snapshot import ChangedNodes, StreamSnapshot, measures_of
from lakehouse.serving.sandbox.sandbox import PublishedReader, open_published
from lakehouse.settings import load_settings
from lakehouse.storage.layout import Home
from tests.oracles.rollup.cases import CASES, LEVELS, LIMITED, NEWEST, Case
from tests.oracles.rollup.dsmga_tree import DsmgaTree
from tests.support.readings import declared

SECOND = 1_000_000
NAMES: dict[tuple[Level, ...], str] = {LEVELS: "all", LIMITED: "limited"}
each_case = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])


@cache
def stream_of(levels: tuple[Level, ...]) -> Stream:
    kept = [f'"{one.width_us}s {f"for {one.keep_us}s" if one.keep_us else "forever"}"' for one in levels]
    text = declared().replace(
        'levels = ["1s for 1m", "10s for 10m", "1m forever"]', f"levels = [{', '.join(kept)}]"
    )
    text = text.replace('groupings = [["device"], []]', 'groupings = [["device"]]')
    with TemporaryDirectory() as folder:
        path = Path(folder) / "tidemark.toml"
        path.write_text(text)
        return load_settings(path).stream("readings")


def folded(stream: Stream, rows: list[tuple[int, str, float]], newest_us: int) -> pa.Table:
    columns = {
        "event_us": pa.array([time for time, _, _ in rows], pa.int64()),
        "device": pa.array([device for _, device, _ in rows]),
        "temp": pa.array([value for _, _, value in rows], pa.float64()),
        "count": pa.array([round(value) for _, _, value in rows], pa.int64()),
    }
    nodes = pa.concat_tables(folder_of(stream, newest_us).folded([pa.table(columns)]))
    return nodes.filter(pc.greater(nodes["level"], 0))


def snapshot(name: str, stream: Stream, nodes: pa.Table, newest_us: int, folder: Path) -> StreamSnapshot:
    (folder / name).mkdir()
    pq.write_table(nodes, folder / name / "nodes.parquet")
    return StreamSnapshot(
        name=name,
        definition=stream.definition(),
        groupings=stream.groupings,
        measures=measures_of(stream),
        levels=stream.levels,
        horizons=horizons(stream.levels, newest_us),
        newest_us=newest_us,
        confirmed_us=newest_us,
        earliest_us=0,
        batch=1,
        latest_us=0,
        raw_path="raw",
        nodes=folder / name,
    )


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublishedReader]:
    """Every case's rows as one series of a stream with the case's levels, and a row that is the newest."""
    folder, told, newest_us = tmp_path_factory.mktemp("cases"), [], NEWEST * SECOND
    for levels, name in NAMES.items():
        stream, rows = stream_of(levels), [(newest_us, "clock", 0.0)]
        for case in CASES:
            if case.levels == levels:
                rows += [(time * SECOND, case.name, value) for time, value in case.data]
        told.append(snapshot(name, stream, folded(stream, rows, newest_us), newest_us, folder))
    publish(Home(folder / "home"), told)
    with open_published(Home(folder / "home")) as reader:
        yield reader


def asked(reader: PublishedReader, case: Case, measure: str) -> Answer:
    times = (case.start * SECOND, case.end * SECOND)
    question = Question(NAMES[case.levels], measure, case.aggregate, *times, {"device": case.name}, ())
    (found,) = answer(reader.connection, question)
    return found


@each_case
def test_answers_from_nodes_folded_in_arrow_give_the_case(published: PublishedReader, case: Case) -> None:
    found = asked(published, case, "count")

    assert (found.value, found.low, found.high, found.exact) == (case.value, case.low, case.high, case.exact)
    assert (found.rows, found.rows_low, found.rows_high) == (
        math.floor(case.rows + 0.5),
        case.rows_low,
        case.rows_high,
    )


@each_case
def test_the_tree_gives_the_case(case: Case) -> None:
    tree = DsmgaTree(case.levels)
    tree.insert_batch([time for time, _ in case.data], [value for _, value in case.data])
    tree.advance(NEWEST)

    many = tree.query_batch([case.start], [case.end], case.aggregate)
    if case.aggregate == "sum" and case.rows_high == 0:
        # The paper's sum of nothing is zero.
        case = case._replace(value=0, low=0, high=0)

    for found in (tree.query(case.start, case.end, case.aggregate), many[0]):
        assert is_moved(found.low, case.low, -1, case) and is_moved(found.high, case.high, 1, case)
        assert (found.value, found.exact) == (case.value, case.exact)
        assert (found.rows, found.rows_low, found.rows_high) == (case.rows, case.rows_low, case.rows_high)


@each_case
def test_doubles_give_the_case_with_sides_moved_out_by_their_rounding(
    published: PublishedReader, case: Case
) -> None:
    found, exact = asked(published, case, "temp"), asked(published, case, "count")

    assert (found.value, found.exact, found.rows) == (exact.value, exact.exact, exact.rows)
    assert is_moved(found.low, case.low, -1, case) and is_moved(found.high, case.high, 1, case)


def is_moved(found: float | None, side: float | None, sign: int, case: Case) -> bool:
    """Outwards, by no more than the rounding of the case's sums."""
    if found is None or side is None:
        return found is side
    most = (SUM_ROUNDING + 2 * EPS) * len(case.data) * max(abs(value) for _, value in case.data)
    return 0 <= sign * (found - side) <= most


def test_whole_numbers_that_do_not_divide_have_sides_around_the_quotient(published: PublishedReader) -> None:
    case = Case("finer nodes where they are kept", (), "avg", 80, 90, None, None, None, True, 3, 3, 3)

    found = asked(published, case, "count")

    assert found.exact and found.low is not None and found.high is not None
    assert Fraction(found.low) < Fraction(4, 3) < Fraction(found.high)
    assert found.high - found.low <= 8 * EPS


def test_no_number_of_a_bound_is_written_in_sql_by_hand() -> None:
    texts = macros()

    assert not [text for text in texts for name in NAMED if f"{{{name}}}" in text]
    assert sum(repr(SUM_ROUNDING) in text for text in texts) == 3


def wild_rows(seed: int) -> list[tuple[int, float]]:
    """Rows whose values cancel, differ by many sizes, or are all alike."""
    dice = random.Random(seed)
    least, most = dice.choice([(-9, 16), (-1, -1), (9, 9 + 1e-9), (15.9, 15.9), (0, 18)])
    signs = dice.choice([(1,), (-1, 1)])
    return [
        (dice.randrange(100), dice.choice(signs) * float(10 ** dice.uniform(least, most)))
        for _ in range(dice.choice([1, 3, 40, 400]))
    ]


def test_intervals_of_sums_of_doubles_hold_the_exact_sums_and_are_narrow(tmp_path: Path) -> None:
    """Whatever the batches: folded each alone and then together, published, and asked over everything."""
    stream, newest_us, series = stream_of(LEVELS), 99 * SECOND, {str(n): wild_rows(n) for n in range(120)}
    placed = [(time * SECOND, name, value) for name, rows in series.items() for time, value in rows]
    random.Random(0).shuffle(placed)
    ends = [*range(0, len(placed), 997), len(placed)]
    parts = [folded(stream, placed[low:high], newest_us) for low, high in pairwise(ends)]
    nodes = folder_of(stream).combined(pa.concat_tables(parts), ["level", "start_us", "grouping", "device"])
    publish(Home(tmp_path / "home"), [snapshot("all", stream, nodes, newest_us, tmp_path)])

    with open_published(Home(tmp_path / "home")) as reader:
        found = answer(reader.connection, Question("all", "temp", "sum", 0, 10**9, {}, ("device",)))

    assert len(found) == len(series)
    for one in found:
        values = [value for _, value in series[str(one.key["device"])]]
        assert one.low is not None and one.high is not None and one.exact
        assert Fraction(one.low) <= sum(map(Fraction, values), Fraction()) <= Fraction(one.high)
        assert one.high - one.low <= 2.5 * SUM_ROUNDING * len(values) * max(map(abs, values))


@pytest.mark.parametrize("seed", range(3))
def test_duckdb_adds_partial_nodes_to_published_ones_as_arrow_combines_them(
    tmp_path: Path, seed: int
) -> None:
    """A version that takes in batch after batch holds the same as one of the nodes that Arrow combined."""
    stream, newest_us, dice = stream_of(LEVELS), 99 * SECOND, random.Random(seed)
    rows = [(time * SECOND, dice.choice("ab"), round(value, 2)) for time, value in wild_rows(seed)]
    rows = [row for row in rows if abs(row[2]) < 1e12] + [(newest_us, "a", 1.0)]
    dice.shuffle(rows)
    batches = [batch for batch in (rows[place::3] for place in range(3)) if batch]
    partial = [folded(stream, batch, newest_us) for batch in batches]
    by = ["level", "start_us", "grouping", "device"]
    whole = folder_of(stream).combined(pa.concat_tables(partial), by)
    shared, alone = Home(tmp_path / "shared"), Home(tmp_path / "alone")

    for place, nodes in enumerate(partial):
        one = replace(snapshot(f"s{place}", stream, nodes, newest_us, tmp_path), name="s", batch=place + 1)
        if place:
            changed = ChangedNodes(place, [tmp_path / f"s{place}" / "nodes.parquet"], ())
            one = replace(one, nodes=None, changed=changed)
        publish(shared, [one])
    expected = replace(snapshot("whole", stream, whole, newest_us, tmp_path), name="s", batch=len(batches))
    publish(alone, [expected], in_full=True)

    assert nodes_of(shared) == nodes_of(alone) != []


def nodes_of(home: Home) -> list[tuple[object, ...]]:
    with open_published(home) as reader:
        return reader.connection.execute(
            "SELECT measure, level, key_values, start_us, n, exact_total, wide_total, lowest, highest, first_us, "
            "last_us, round(total, 2), carry IS NULL FROM nodes "
            "JOIN ladder ON slot // 4294967296 = first_slot // 4294967296 "
            "JOIN series ON series_rank = slot - first_slot ORDER BY ALL"
        ).fetchall()
