from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.config.stream import Stream
from lakehouse.serving.storage_plan import storage_plan
from lakehouse.storage.layout import Home
from tests.queries.declared_streams import DAY, HOUR, MINUTE, stream_of
from tests.serving.streams import write_delta

NEWEST = 1000 * DAY + 5 * HOUR
STREAM = stream_of(keep_raw="10d", keys=["device"], groupings=[["device"], []])


def written(root: Path, stream: Stream, properties: dict[str, str]) -> Home:
    """Write a rollup of two days, a node a minute and device, some twice as partial nodes, and its ledger."""
    home = Home(root)
    nodes: list[dict[str, Any]] = [{"level": 0, "grouping": -1, "start_us": NEWEST, "device": None}]
    for minute in range(2 * 24 * 60):
        start = 999 * DAY + minute * MINUTE
        nodes += 2 * [{"level": 2, "grouping": 0, "start_us": start, "device": "a"}]
    nodes += [{"level": 3, "grouping": 1, "start_us": day * DAY, "device": None} for day in range(1001)]
    schema = pa.schema([(name, pa.int64()) for name in ("level", "grouping", "start_us", "batch")])
    nodes = [{**node, "batch": 1} for node in nodes]
    rollup = home.rollup(stream.name)
    rollup.mkdir(parents=True)
    write_delta(pa.Table.from_pylist(nodes, schema.append(pa.field("device", pa.string()))), rollup)
    log = Path(rollup) / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    actions[1]["metaData"]["configuration"] = {"tidemark.definition": stream.definition(), **properties}
    log.write_text("".join(json.dumps(action) + "\n" for action in actions))
    home.ledger(stream.name).mkdir(parents=True)
    times = {
        "min_event_us": [0, 999 * DAY],
        "max_event_us": [NEWEST, NEWEST],
        "newest_us": [NEWEST, NEWEST],
        "confirmed_us": [NEWEST, NEWEST],
    }
    write_delta(pa.table({"batch": [1, 2], "accepted": [1, 1], **times}), home.ledger(stream.name))
    return home


def test_each_level_tells_since_when_it_is_kept_and_how_many_nodes(tmp_path: Path) -> None:
    found = storage_plan(written(tmp_path, STREAM, {}), STREAM)

    assert [(v["width_us"], v["nodes"]) for v in found["levels"]] == [
        (10**6, 0),
        (MINUTE, 2 * 24 * 60 - 0),
        (DAY, 1001),
    ]
    assert [v["from_us"] for v in found["levels"]] == [1000 * DAY + 4 * HOUR, 998 * DAY, None]
    assert (found["newest_us"], found["earliest_us"]) == (NEWEST, 0)
    assert found["raw"]["next_from_us"] == 990 * DAY
    assert not found["change"]["effects"] and not found["lacks_now"]
    size = (tmp_path / "rollup" / "readings" / "part-0.parquet").stat().st_size
    assert sum(v["bytes"] for v in found["levels"]) == pytest.approx(size, abs=3)


def test_nodes_below_a_floor_are_not_counted_and_their_lack_is_told(tmp_path: Path) -> None:
    floors = json.dumps([1000 * DAY + 4 * HOUR, 1000 * DAY, -(2**62)])

    found = storage_plan(written(tmp_path, STREAM, {"tidemark.floors": floors}), STREAM)

    assert found["levels"][1]["nodes"] == 24 * 60
    assert found["lacks_now"] == ["level 1m: its nodes are kept since 1972-09-27 00:00:00 only"]


def test_what_a_changed_declaration_will_do_is_told_before(tmp_path: Path) -> None:
    home = written(tmp_path, STREAM, {})

    found = storage_plan(home, stream_of(keys=["device"], measures=["temp", "count"]))

    assert found["change"]["needs_rebuild"]
    assert found["change"]["effects"] == (
        "measure count is new",
        "`tidemark rebuild readings` builds all nodes again, from raw rows",
    )


def test_before_the_first_run_the_plan_is_the_declaration(tmp_path: Path) -> None:
    found = storage_plan(Home(tmp_path), STREAM)

    assert [v["nodes"] for v in found["levels"]] == [0, 0, 0]
    assert (found["newest_us"], found["raw"]["rows"], found["change"]["effects"]) == (None, 0, ())
