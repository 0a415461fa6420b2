"""Versions that share nodes with the one before hold the same as one that is made anew, whatever came in between."""

from __future__ import annotations

import itertools
import os
import pickle
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.rollup.levels import Level
from lakehouse.serving.ask.ask import ask
from lakehouse.serving.publish.gate import PublishRefused
from lakehouse.serving.publish.publish import Published, publish, shared_streams
from lakehouse.serving.publish.snapshot import ChangedNodes, StreamSnapshot
from lakehouse.serving.sandbox.sandbox import PublishedReader, open_published, reading
from lakehouse.serving.segments import merge
from lakehouse.serving.segments.merge import Size, remaining
from lakehouse.serving.versions.versions import current_version, database_path, segments_of
from lakehouse.storage.layout import Home
from tests.serving.streams import MEASURES, RandomStream, Row, random_rows

LEVELS = {
    "forever": (Level(5, 60), Level(20, 300), Level(100, None)),
    "limited": (Level(4, 40), Level(20, 400)),
    "one": (Level(10, None),),
    "flat": (Level(10, 200),),
}
ROUNDED = [measure.name for measure in MEASURES if not measure.is_exact]
# Everything that readers see of nodes, without numbers that depend on how often a stream was made anew.
CONTENT = (
    """
    SELECT ladder.stream, ladder.measure, ladder.level, series."grouping", key_values, lookup, parent_us, start_us, n,
        exact_total, wide_total, lowest, highest, first_us, last_us, round(total, 3), round(magnitude, 3)
    FROM nodes JOIN ladder ON slot // 4294967296 = first_slot // 4294967296 JOIN streams USING (stream)
    JOIN series ON series.stream_id = streams.stream_id AND series_rank = slot - first_slot ORDER BY ALL
    """,
    # A series stays while versions share nodes, also when its last node is forgotten.
    """
    SELECT DISTINCT stream, "grouping", key, key_values, lookup FROM series JOIN streams USING (stream_id)
    JOIN ladder USING (stream) SEMI JOIN nodes ON slot = first_slot + series_rank ORDER BY ALL
    """,
    "SELECT * EXCLUDE (stream_id, basis, series_count) FROM streams ORDER BY stream",
    "SELECT stream, node_counts.* EXCLUDE (stream_id) FROM node_counts JOIN streams USING (stream_id) ORDER BY ALL",
    "SELECT * EXCLUDE (first_slot, groupings) FROM ladder ORDER BY ALL",
    *("FROM levels ORDER BY ALL", "FROM ledger ORDER BY ALL", "FROM quarantine ORDER BY ALL"),
    "SELECT count(*) FROM rollups",
)


@contextmanager
def small_segments(own: int) -> Iterator[None]:
    """Segments of a few nodes, so that some batches make several and merge them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merge, "OWN_NODES", own)
        patch.setattr(merge, "_RATIO", 2)
        patch.setattr(merge, "_SORTED_AT_ONCE", 3 * own)
        yield


def content(home: Home | PublishedReader) -> list[list[tuple[Any, ...]]]:
    with reading(home) as reader:
        return [reader.connection.execute(query).fetchall() for query in CONTENT]


def whole(name: str, rows: list[Row], folder: Path) -> StreamSnapshot:
    """The stream as folded anew after all of its rows."""
    return RandomStream(name, LEVELS[name], rows).write(folder)


@dataclass
class Corrected:
    """A stream whose rows came in batches, and of which corrections drop and change rows in ranges of time."""

    name: str
    arriving: list[list[Row]]
    taken: int = 1
    corrections: list[tuple[int, int, int]] = field(default_factory=list)

    def came(self) -> list[Row]:
        """Return the rows that came."""
        return [row for batch in self.arriving[: self.taken] for row in batch]

    def correct(self, dice: random.Random) -> None:
        """Begin a correction of a few whole top nodes."""
        width = LEVELS[self.name][-1].width_us
        low = width * (dice.choice(self.came()).event_us // width)
        self.corrections.append((self.taken, low, low + width * dice.randrange(1, 3)))

    def rows(self) -> list[Row]:
        """Return the rows that are left; the newest is, so that no horizon moves back."""
        left = self.came()
        for number, (through, low, high) in enumerate(self.corrections):
            newest = max(row.event_us for row in left if row.batch <= through)
            found = []
            for row in left:
                dice = random.Random(f"{number} {row}")
                if row.batch > through or not low <= row.event_us < high or row.event_us == newest:
                    found.append(row)
                elif dice.random() < 0.5:
                    found.append(replace(row, hits=dice.choice([None, 7]), temp=dice.choice([None, -99.5])))
            left = found
        return left

    def whole(self, folder: Path) -> StreamSnapshot:
        """Return the stream as folded anew; its ledger counts what came."""
        came, rows = self.came(), self.rows()
        told = whole(self.name, rows, folder)
        if rows != came:
            ledger = RandomStream(self.name, LEVELS[self.name], came).write_ledger(folder / "came")
            told = replace(told, ledger=ledger, batch=self.taken)
        rebuilds = [
            (2 * at + 1, [(low, high)]) for at, (_, low, high) in enumerate(self.corrections, start=1)
        ]
        return replace(told, rebuilds=rebuilds, rebuilt=2 * len(rebuilds) + bool(rebuilds))


def shared(
    snapshot: StreamSnapshot, rows: list[Row], after: int, folder: Path, rebuilt: int = 0
) -> StreamSnapshot:
    """The same, told as partial nodes of the rows that came since, one file per batch, and those built again."""
    files = []
    for batch in sorted({row.batch for row in rows if row.batch > after}):
        new = [row for row in rows if row.batch == batch]
        part = RandomStream(snapshot.name, tuple(snapshot.levels), new)
        files += sorted(part.write_nodes(folder / f"part-{batch}").glob("*.parquet"))
    ledger = sorted(snapshot.ledger.glob("*.parquet")) if snapshot.ledger else []
    ranges = snapshot.rebuilt_since(rebuilt)
    assert ranges is not None and snapshot.nodes is not None
    is_corrected = snapshot.rebuilt != rebuilt
    changed = ChangedNodes(after, files, ledger, rebuilt, ranges, is_corrected=is_corrected)
    if ranges:
        folder.mkdir(parents=True, exist_ok=True)
        nodes = f"FROM '{snapshot.nodes}/*.parquet' WHERE {changed.within()}"
        duckdb.execute(f"COPY ({nodes}) TO '{folder}/again.parquet' (FORMAT parquet)")
        changed = replace(changed, again=[folder / "again.parquet"])
    return replace(snapshot, nodes=None, ledger=None, totals=(), changed=changed)


def published(home: Home, snapshots: list[tuple[StreamSnapshot, list[Row]]], folder: Path) -> Published:
    """Publish what changed of each stream, all of it where nothing can be shared."""
    known = shared_streams(home, [one for one, _ in snapshots])
    told = [
        shared(one, rows, known[one.name].batch, folder / one.name, known[one.name].rebuilt)
        if one.name in known
        else one
        for one, rows in snapshots
    ]
    return publish(home, told)


def batches(seed: int, count: int) -> list[list[Row]]:
    """Rows in batches whose times move on, with late ones among them."""
    return [
        [replace(row, batch=batch) for row in random_rows(seed + batch, 12, 120 + 90 * batch)]
        for batch in range(1, count + 1)
    ]


def test_a_version_that_shares_nothing_was_made_anew_and_those_after_it_since(tmp_path: Path) -> None:
    (first, second, third), home = batches(3, 3), Home(tmp_path / "home")
    came = [whole("flat", rows, tmp_path / str(len(rows))) for rows in (first, first + second)]

    made_us = [publish(home, [one]).anew_us for one in came]
    rows = [*first, *second, *third]
    shares = published(home, [(whole("flat", rows, tmp_path / "third"), rows)], tmp_path / "parts")

    assert made_us[0] < made_us[1] == shares.anew_us


@pytest.mark.slow
@settings(max_examples=5, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    own=st.sampled_from([1, 30, 150, 10**6]),
    steps=st.lists(st.sampled_from(["batch", "two batches", "rebuild", "nothing"]), min_size=2, max_size=5),
)
def test_what_changed_and_all_of_it_make_the_same_version(seed: int, own: int, steps: list[str]) -> None:
    names, arriving = ("forever", "limited", "flat"), {}
    for place, name in enumerate(("forever", "limited", "flat")):
        arriving[name] = batches(seed + 100 * place, 2 * len(steps) + 1)
    with tempfile.TemporaryDirectory() as root, small_segments(own):
        folder, taken, rebuilt = Path(root), dict.fromkeys(names, 1), 0
        written: dict[str, StreamSnapshot] = {}
        for step, what in enumerate(["batch", *steps]):
            rebuilt += what == "rebuild"
            moved = names[step % 3]
            taken[moved] += {"batch": 1, "two batches": 2}.get(what, 0)
            snapshots = []
            for name in names:
                rows = [row for batch in arriving[name][: taken[name]] for row in batch]
                if name == moved or name not in written:
                    written[name] = whole(name, rows, folder / f"{step}" / name)
                one = replace(written[name], rebuilt=rebuilt if name == "limited" else 0)
                snapshots.append((one, rows))
            published(Home(folder / "shared"), snapshots, folder / f"{step}-parts")
            publish(Home(folder / "anew"), [one for one, _ in snapshots])
            version = current_version(folder / "shared" / "serving") or 0
            held = database_path(folder / "shared" / "serving", version)
            assert len(segments_of(held)) <= merge.MOST_SEGMENTS
            with (
                open_published(Home(folder / "shared")) as again,
                open_published(Home(folder / "anew")) as anew,
            ):
                for query, left, right in zip(CONTENT, content(again), content(anew), strict=True):
                    assert left == right, (query, set(left_of(left)) ^ set(left_of(right)))
                for agg, by in (("sum", []), ("min", ["device"]), ("count", ["device", "zone"])):
                    asked = (moved, "hits", agg, 17, 60 + 90 * taken[moved])
                    answers = [ask(reader, *asked, by=by) for reader in (again, anew)]
                    plain = [[replace(one, as_of_version=0) for one in answer] for answer in answers]
                    assert plain[0] == plain[1]


CORRECTED_STEPS = st.lists(st.sampled_from(["batch", "correct", "both", "two"]), min_size=2, max_size=6)
OWN_NODES = st.sampled_from([1, 30, 150, 10**6])


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(
    names=st.sampled_from(list(itertools.combinations(LEVELS, 2))),
    seed=st.integers(0, 10**6),
    own=OWN_NODES,
    steps=CORRECTED_STEPS,
)
def test_nodes_that_corrections_built_again_and_all_of_them_make_the_same_version(
    names: tuple[str, ...], seed: int, own: int, steps: list[str]
) -> None:
    publish_corrected(names, seed, own, steps)


@pytest.mark.long
@pytest.mark.timeout(1800)
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), own=OWN_NODES, steps=CORRECTED_STEPS)
def test_nodes_that_corrections_of_many_streams_built_again_and_all_of_them_make_the_same_version(
    seed: int, own: int, steps: list[str]
) -> None:
    publish_corrected(tuple(LEVELS), seed, own, steps)


def publish_corrected(names: tuple[str, ...], seed: int, own: int, steps: list[str]) -> None:
    """Publish streams after each step, sharing and anew, and compare."""
    dice = random.Random(seed)
    streams = [
        Corrected(name, batches(seed + 100 * place, len(steps) + 2)) for place, name in enumerate(names)
    ]
    with tempfile.TemporaryDirectory() as root, small_segments(own):
        folder = Path(root)
        for step, what in enumerate(["batch", *steps]):
            for stream in streams:
                for _ in range({"correct": 1, "both": 1, "two": 2}.get(what, 0)):
                    stream.correct(dice)
                stream.taken += what != "correct"
            told = [(one.whole(folder / f"{step}" / one.name), one.came()) for one in streams]
            published(Home(folder / "shared"), told, folder / f"{step}-parts")
            publish(Home(folder / "anew"), [one for one, _ in told])
            with (
                open_published(Home(folder / "shared")) as again,
                open_published(Home(folder / "anew")) as anew,
            ):
                for query, left, right in zip(CONTENT, content(again), content(anew), strict=True):
                    assert left == right, (query, set(left_of(left)) ^ set(left_of(right)))
                numbers = again.connection.execute("SELECT max(stream_id) FROM streams").fetchall()
                assert numbers == [(len(streams) - 1,)]
                for name in names[:2]:
                    asked = (name, "hits", "sum", 17, 60 + 90 * len(steps))
                    answers = [ask(reader, *asked, by=["device"]) for reader in (again, anew)]
                    plain = [[replace(one, as_of_version=0) for one in answer] for answer in answers]
                    assert plain[0] == plain[1]


def left_of(rows: list[tuple[Any, ...]]) -> list[str]:
    return [repr(row) for row in rows]


def two_versions(folder: Path) -> tuple[list[Row], StreamSnapshot, StreamSnapshot]:
    first, second = batches(5, 2)
    before = whole("forever", first, folder / "1")
    return first + second, before, whole("forever", first + second, folder / "2")


@pytest.mark.slow
def test_a_partial_node_that_is_lost_refuses_the_publish(tmp_path: Path) -> None:
    rows, before, after = two_versions(tmp_path)
    home = Home(tmp_path / "home")
    publish(home, [before])
    told = shared(after, rows, 1, tmp_path / "parts")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lakehouse.serving.publish.build.write_changed", without_a_node)
        with pytest.raises(PublishRefused, match="the rollup gained"):
            publish(home, [told])

    assert current_version(home.serving) == 1
    assert publish(home, [told]).version == 2


def without_a_node(connection: duckdb.DuckDBPyConnection, one: Any) -> None:
    from lakehouse.serving.publish.changes import combined_of, write_changed

    write_changed(connection, one)
    for table in ("fresh.segment.nodes", combined_of(one.number)):
        connection.execute(f"DELETE FROM {table} WHERE slot = (SELECT min(slot) FROM {table})")


@pytest.mark.slow
@pytest.mark.parametrize(
    "place", ["publish.segment-written", "publish.file-written", "publish.pointer-moved"]
)
def test_killed_anywhere_and_run_again_the_version_is_the_same(tmp_path: Path, place: str) -> None:
    rows, before, after = two_versions(tmp_path)
    home = Home(tmp_path / "home")
    code = (
        "import pickle, sys; from lakehouse.serving.segments import merge\n"
        "from lakehouse.serving.publish.publish import publish\n"
        "merge.OWN_NODES = 1; publish(*pickle.load(sys.stdin.buffer))"
    )
    with small_segments(1):
        publish(home, [before])
        told = shared(after, rows, 1, tmp_path / "parts")
        killed = subprocess.run(
            [sys.executable, "-c", code],
            input=pickle.dumps((home, [told])),
            env=os.environ | {"TIDEMARK_CRASH_AT": place},
            check=False,
        )
        if place != "publish.pointer-moved":
            with open_published(home) as reader:
                assert reader.version == 1
        published(home, [(after, rows)], tmp_path / "again")
    publish(Home(tmp_path / "anew"), [after])

    assert killed.returncode == -signal.SIGKILL
    assert content(home) == content(Home(tmp_path / "anew"))


def test_changes_of_another_version_are_not_taken(tmp_path: Path) -> None:
    rows, before, after = two_versions(tmp_path)
    publish(Home(tmp_path / "home"), [before])

    with pytest.raises(ValueError, match="do not follow the version that is published"):
        publish(Home(tmp_path / "home"), [shared(after, rows, 0, tmp_path / "parts")])


@pytest.mark.slow
def test_a_reader_of_an_old_version_keeps_its_segments(tmp_path: Path) -> None:
    home, count = Home(tmp_path / "home"), "SELECT sum(n)::BIGINT, count(*) FROM nodes"
    arriving = batches(9, 6)
    with small_segments(1):
        publish(home, [whole("one", arriving[0], tmp_path / "1")])
        with open_published(home) as reader:
            seen = reader.connection.execute(count).fetchall()
            for step in range(2, 7):
                rows = [row for batch in arriving[:step] for row in batch]
                published(
                    home, [(whole("one", rows, tmp_path / f"{step}"), rows)], tmp_path / f"{step}-parts"
                )
            assert reader.connection.execute(count).fetchall() == seen
            kept = {path.stem for path in (home.serving / "segments").glob("*.duckdb")}
            held = set(segments_of(reader.hold.path))
        newest = segments_of(database_path(home.serving, 6))

        publish(home, [replace(whole("one", rows, tmp_path / "7"), quarantine={"clock": 1})], keep_versions=1)

    assert held and held <= kept
    left = {path.stem for path in (home.serving / "segments").glob("*.duckdb")}
    assert left == set(segments_of(database_path(home.serving, 7)))
    assert not left & set(newest)


def test_nodes_that_are_all_in_one_segment_are_read_from_it_alone(tmp_path: Path) -> None:
    home, rows = Home(tmp_path / "home"), batches(1, 1)[0]
    with small_segments(1):
        publish(home, [whole("one", rows, tmp_path / "1")])
        with open_published(home) as reader:
            view = reader.connection.execute(
                "SELECT sql FROM duckdb_views() WHERE view_name = 'node_segments'"
            ).fetchall()
            counts = "SELECT (SELECT count(*) FROM nodes), (SELECT count(*) FROM node_segments)"
            [(nodes, stored)] = reader.connection.execute(counts).fetchall()

    assert len(segments_of(database_path(home.serving, 1))) == 1
    assert "UNION" not in view[0][0] and nodes == stored > 0


def test_few_nodes_are_kept_in_the_versions_own_file(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    publish(home, [whole("one", batches(1, 1)[0], tmp_path / "1")])

    assert segments_of(database_path(home.serving, 1)) == []
    assert list((home.serving / "segments").iterdir()) == []


@pytest.mark.parametrize(
    ("sizes", "incoming", "expected"),
    [
        ([], 10, (0, True)),
        ([10**7], 10**5, (1, True)),
        ([10**7], 10**6, (1, False)),
        ([10**7], 2 * 10**6, (0, False)),
        ([10**8, 10**6], 3 * 10**5, (1, False)),
        ([10**8, 10**6, 10**5], 3 * 10**5, (1, False)),
        ([10**9], 5 * 10**6, (0, False)),
    ],
)
def test_a_segment_is_merged_when_what_comes_is_not_much_smaller(
    sizes: list[int], incoming: int, expected: tuple[int, bool]
) -> None:
    assert remaining([Size(str(size), size, size) for size in sizes], incoming) == expected


def test_a_segment_that_levels_have_mostly_forgotten_is_merged() -> None:
    assert remaining([Size("a", 10**7, 10**7), Size("b", 10**6, 10**5)], 10) == (1, True)
    assert remaining([Size("a", 10**7, 10**6), Size("b", 10**5, 10**5)], 10) == (0, False)


TOTALS = """
    SELECT ladder.stream, ladder.measure, sum(n)::BIGINT, ifnull(sum(exact_total), 0)::BIGINT
    FROM nodes JOIN ladder ON slot // 4294967296 = first_slot // 4294967296 JOIN streams USING (stream)
    JOIN series ON series.stream_id = streams.stream_id AND series_rank = slot - first_slot AND "grouping" = 0
    WHERE measure IN ('*', 'hits') GROUP BY ALL
"""


@pytest.mark.slow
def test_streams_written_whole_changed_and_unchanged_are_published_in_every_order_of_names(
    tmp_path: Path,
) -> None:
    home, names, level = Home(tmp_path / "home"), ("a", "b", "c"), LEVELS["one"]
    cases = list(itertools.product(("whole", "changed", "unchanged"), repeat=3))
    arriving = {name: batches(10 * place, 28) for place, name in enumerate(names)}
    taken, rebuilt = dict.fromkeys(names, 1), dict.fromkeys(names, 0)
    made: dict[str, StreamSnapshot] = {}
    # The first version lacks one of the streams, so that the next one gains it.
    for step, case in enumerate([("absent", "whole", "whole"), *cases]):
        rows = {}
        for name, state in zip(names, case, strict=True):
            rebuilt[name] += state == "whole"
            taken[name] += state == "changed"
            rows[name] = [row for batch in arriving[name][: taken[name]] for row in batch]
            if state in ("changed", "whole"):
                made[name] = RandomStream(name, level, rows[name]).write(tmp_path / str(step) / name)
        snapshots = [
            (replace(made[name], rebuilt=rebuilt[name]), rows[name]) for name in names if name in made
        ]
        published(home, snapshots, tmp_path / str(step) / "parts")

        wanted = {
            (name, measure): (count, total)
            for name in made
            for measure, count, total in (("*", len(rows[name]), 0), ("hits", *hits(rows[name])))
        }
        with open_published(home) as reader:
            totals = reader.connection.execute(TOTALS).fetchall()
        assert {(stream, measure): (n, exact) for stream, measure, n, exact in totals} == wanted, case


def hits(rows: list[Row]) -> tuple[int, int]:
    values = [row.hits for row in rows if row.hits is not None]
    return len(values), sum(values)
