"""Names of alarms, and alarms as they stand, which are those that all changes come to."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.queries.aggregate.alarms import named, standing_alarms
from lakehouse.queries.runtime.tables import create_tables
from lakehouse.storage.tables.table_commits import append_arrow, arrow_schema, fitted, open_table
from lakehouse.storage.tables.table_maintenance import compact_and_vacuum
from lakehouse.storage.tables.table_reads import read_between
from tests.queries.answered import TEXT as ANSWERED
from tests.queries.answered import declare, query_of

if TYPE_CHECKING:
    from lakehouse.queries.aggregate.query import AggregateQuery

TEXT = """\
SELECT a.place, COUNT(*) AS n FROM asks [10 SECONDS] a, replies [10 SECONDS] b WHERE a.place = b.place
GROUP BY a.place HAVING COUNT(*) > 5 EVERY 5 SECONDS SLACK 30 SECONDS ALARM
"""
Change = dict[str, Any]


@pytest.fixture(scope="module")
def query(tmp_path_factory: pytest.TempPathFactory) -> AggregateQuery:
    folder: Path = tmp_path_factory.mktemp("declared")
    return query_of(ANSWERED, declare(folder).streams)


def changes(
    query: AggregateQuery, groups: list[Any], raised_us: list[int], known: list[str | None]
) -> pa.Table:
    [group] = query.groups
    names = pa.array(known, pa.string())
    return pa.table(
        {"alarm": names, group.name: pa.array(groups), "raised_us": pa.array(raised_us, pa.int64())}
    )


GROUPS = st.one_of(
    st.lists(st.none() | st.text(max_size=3), min_size=1, max_size=9),
    st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=9),
    st.lists(st.booleans(), min_size=1, max_size=9),
)


def test_a_name_is_the_same_each_time(query: AggregateQuery) -> None:
    groups = ["kitchen", None, "", "Łódź", *map(str, range(500))]
    raised = [1_800_000_000_000_000 + 977 * place for place in range(len(groups))]
    told = changes(query, groups, raised, [None, "kept", *[None] * (len(groups) - 2)])
    names = [group.name for group in query.groups]

    found = [named(told, names, "busy online 7")["alarm"].to_pylist() for _ in range(2)]

    assert found[0] == found[1]
    assert found[0][1] == "kept"
    assert {len(name) for name in found[0]} == {32, len("kept")}


@pytest.mark.slow
@given(GROUPS, st.integers(0, 2**62), st.integers(0, 10**6))
def test_new_alarms_of_one_run_have_names_of_their_own_and_known_ones_keep_theirs(
    query: AggregateQuery, groups: list[Any], first_us: int, batch: int
) -> None:
    raised = [first_us + place for place in range(len(groups))]
    known = ["as before" if place == 1 else None for place in range(len(groups))]

    told, shown = changes(query, groups, raised, known), [group.name for group in query.groups]
    names = named(told, shown, f"{query.name} online {batch}")["alarm"].to_pylist()

    assert len({*names}) == len(groups)
    assert names[1:2] in ([], ["as before"])


def table_in(folder: Path) -> Path:
    """An empty table of alarms."""
    declared = declare(folder, busy=TEXT)
    query = query_of(TEXT, declared.streams)
    create_tables(declared.layout, query, declared.streams)
    return Path(declared.layout.alarms("busy"))


def append(alarms: Path, changes: list[Change], batch: int) -> None:
    known = open_table(alarms)
    rows = fitted(pa.Table.from_pylist(changes), arrow_schema(known))
    append_arrow(known, alarms, rows, ("alarms", batch))


def some_changes(dice: random.Random, standing: dict[str, Change], now: int) -> list[Change]:
    """Alarms that are raised, cleared, move, are open again or withdrawn; one may change twice at once."""
    told: list[Change] = []
    for _ in range(dice.randrange(1, 5)):
        name = dice.choice([*standing, f"a{now}-{len(told)}"])
        before = standing.get(name, {"raised_us": now, "cleared_us": None, "change": -1})
        state = dice.choice(("raised", "cleared", "cleared", "withdrawn"))
        cleared_us = dice.randrange(now + 1) if state == "cleared" else None
        change = before | {"alarm": name, "place": "hall", "state": state, "cleared_us": cleared_us}
        standing[name] = change | {"change": before["change"] + 1}
        told.append(standing[name])
        if state == "withdrawn":
            del standing[name]
    return told


def expected(alarms: Path, from_us: int) -> list[Change]:
    """The same, of all changes and one by one."""
    last: dict[str, Change] = {}
    for row in read_between(alarms).to_pylist():
        if row["alarm"] not in last or last[row["alarm"]]["change"] < row["change"]:
            last[row["alarm"]] = row
    stands = (row for row in last.values() if row["state"] != "withdrawn")
    return [row for row in stands if row["cleared_us"] is None or row["cleared_us"] >= from_us]


def in_order(rows: list[Change]) -> list[Change]:
    return sorted(rows, key=lambda row: str(row["alarm"]))


@pytest.mark.slow
@settings(max_examples=15)
@given(st.integers(0, 2**32))
def test_what_stands_is_what_all_changes_come_to(seed: int) -> None:
    dice, standing = random.Random(seed), dict[str, Change]()
    with tempfile.TemporaryDirectory() as folder:
        alarms = table_in(Path(folder))
        for now in range(8):
            append(alarms, some_changes(dice, standing, now), now)
            match dice.randrange(6):
                case 0:
                    # A home of before there was such a file, or one that a killed process left the older of.
                    (alarms / "_standing.parquet").unlink(missing_ok=True)
                case 1:
                    compact_and_vacuum(alarms)
                case 2:
                    # A batch that a repair or a crash passed over.
                    continue
            # Most look at what is new, a repair further back than was thought.
            from_us = now if dice.randrange(3) else dice.randrange(now + 1)

            found = standing_alarms(alarms, alarms, from_us, now - 2)

            assert found is not None
            assert in_order(found.to_pylist()) == in_order(expected(alarms, from_us))


def test_a_batch_reads_only_what_was_committed_since(tmp_path: Path) -> None:
    alarms = table_in(tmp_path)
    ended = {"place": "hall", "state": "cleared", "cleared_us": 1, "raised_us": 0, "change": 0}
    append(alarms, [ended | {"alarm": f"old{place}"} for place in range(100)], 1)
    standing_alarms(alarms, alarms, 10, 5)
    for path in alarms.rglob("*.parquet"):
        if not path.name.startswith("_"):
            path.write_bytes(b"never read again")
    append(alarms, [ended | {"alarm": "new", "cleared_us": 11}], 2)

    found = standing_alarms(alarms, alarms, 10, 5)

    assert found is not None and found["alarm"].to_pylist() == ["new"]


def test_a_file_that_is_damaged_or_of_another_table_is_made_again(tmp_path: Path) -> None:
    alarms, other = table_in(tmp_path / "one"), table_in(tmp_path / "other")
    change = {"place": "hall", "state": "raised", "raised_us": 0, "change": 0}
    for table, name in ((alarms, "own"), (other, "foreign")):
        append(table, [change | {"alarm": name}], 1)
        standing_alarms(table, table, 10, 5)
    for content in (b"", b"PAR1 cut", (other / "_standing.parquet").read_bytes()):
        (alarms / "_standing.parquet").write_bytes(content)

        found = standing_alarms(alarms, alarms, 10, 5)

        assert found is not None and found["alarm"].to_pylist() == ["own"]
