from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from jobs import build_rollups, maintain
from lakehouse.ingest import raw_rows
from lakehouse.rollup import rollup
from lakehouse.settings import Settings, load_settings
from lakehouse.storage.tables import table_reads
from lakehouse.storage.tables.rollup_table import read_marker
from tests.end_to_end.pipeline import digest
from tests.engine.jobs import jobs_of
from tests.oracles.rollup.dsmga_tree import DsmgaTree
from tests.support.folded import folded, rows_of
from tests.support.readings import declared
from tests.support.readings_lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
Make = Callable[..., Lake]
T0 = 1_600_000_000
DEVICES = ("a", "b", "c")


def random_readings(seed: int, count: int) -> list[dict[str, Any]]:
    """Readings over half an hour, a third of them late by up to all of it, with gaps and missing values."""
    random = np.random.default_rng(seed)
    times = np.sort(random.uniform(0, 1800, count)) - np.where(
        random.random(count) < 0.3, 1, 0
    ) * random.uniform(0, 1800, count)
    return [
        {
            "ts": round(T0 + float(time), 3),
            "received": T0,
            "device": str(random.choice(DEVICES)),
            "temp": None if random.random() < 0.1 else round(float(random.normal(0, 50)), 3),
            "count": int(random.integers(-5, 6)),
        }
        for time in times
        if not 300 < time < 700
    ]


def build(stream: Lake) -> dict[str, Any]:
    return build_rollups.run(stream.settings, stream.spark, stream.stream)


def nodes(stream: Lake) -> list[tuple[Any, ...]]:
    columns = ("level", "grouping", "start_us", "device", "rows", "first_us", "last_us")
    measures = [f"{m}__{p}" for m in ("temp", "count") for p in ("n", "min", "max", "first_us", "last_us")]
    found: list[tuple[Any, ...]] = list(
        rows_of(folded(stream.settings, stream.stream), *columns, *measures, "count__sum", "temp__sum")
    )
    return sorted(((*rest, total and round(total, 6)) for *rest, total in found), key=repr)


def tree_of(stream: Lake, readings: list[dict[str, Any]], device: str | None, measure: str) -> DsmgaTree:
    """The pure tree over one series; every stream's newest time moves every series' horizons."""
    tree = DsmgaTree(stream.settings.streams[stream.stream].levels)
    kept = [r for r in readings if device is None or r["device"] == device]
    kept = [r for r in kept if r[measure] is not None]
    if kept:
        tree.insert_batch([round(r["ts"] * 10**6) for r in kept], [float(r[measure]) for r in kept])
    tree.advance(max(round(r["ts"] * 10**6) for r in readings))
    return tree


@pytest.mark.parametrize("seed", [1, 2])
def test_tables_hold_the_nodes_of_the_tree_on_every_level(
    lake: Make, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = lake()
    readings = random_readings(seed, 300)
    for part in range(3):
        text = "".join(json.dumps(r) + "\n" for r in readings[part::3])
        stream.land(f"{part}.ndjson", text)
        stream.take_in()
        build(stream)

    at_once = folded(stream.settings, "readings")
    monkeypatch.setattr(rollup, "VALUES_AT_ONCE", 1000)
    by_times = folded(stream.settings, "readings")

    assert digest(rows_of(at_once)) == digest(rows_of(by_times))
    frame = at_once.to_pylist()
    for grouping, device in [(0, d) for d in DEVICES] + [(1, None)]:
        for measure in ("temp", "count"):
            tree = tree_of(stream, readings, device, measure)
            for level in (1, 2, 3):
                expected = {
                    n.start: (n.n, n.min, n.max, n.first_us, n.last_us) for n in tree.nodes(level - 1)
                }
                own = [
                    r for r in frame if (r["level"], r["grouping"], r["device"]) == (level, grouping, device)
                ]
                parts = [f"{measure}__{p}" for p in ("n", "min", "max", "first_us", "last_us")]
                found = {r["start_us"]: tuple(r[p] for p in parts) for r in own if r[parts[0]]}
                sums = {r["start_us"]: float(r[f"{measure}__sum"]) for r in own if r[parts[0]]}
                assert found == expected
                assert sums == pytest.approx({n.start: n.sum for n in tree.nodes(level - 1)}, abs=1e-9)


def test_order_and_cut_of_batches_and_of_tasks_change_no_node(
    lake: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = random_readings(7, 120)
    forward, backward = lake(), lake()
    backward = Lake(backward.spark, load_settings(tmp_path / "tidemark.toml", tmp_path / "other"))
    text = [json.dumps(r) + "\n" for r in readings]
    forward.land("0.ndjson", "".join(text))
    forward.take_in()
    build(forward)
    whole = nodes(forward)
    (tmp_path / "landing" / "0.ndjson").unlink()

    monkeypatch.setattr(table_reads, "PIECE_ROWS", 7)
    monkeypatch.setattr(raw_rows, "ROWS_A_TASK", 10)
    for parts in (range(1), range(1, 3)):
        for part in parts:
            backward.land(f"{part}.ndjson", "".join(text[::-1][part::3]))
            backward.take_in()
        build(backward)

    assert nodes(backward) == whole


def test_tasks_of_spark_make_the_same_nodes_in_one_job(
    lake: Make, tmp_path: Path, on_spark: SparkSession
) -> None:
    here = lake()
    by_tasks = Lake(on_spark, load_settings(tmp_path / "tidemark.toml", tmp_path / "other"))
    here.land("0.ndjson", "".join(json.dumps(r) + "\n" for r in random_readings(7, 120)))
    for stream in (here, by_tasks):
        stream.take_in()
    build(here)

    assert jobs_of(on_spark, lambda: build(by_tasks)) == 1
    assert nodes(by_tasks) == nodes(here)

    layout, own = by_tasks.settings.layout, by_tasks.settings.stream("readings")
    # One counts the nodes that came, one brings them to their parts.
    assert jobs_of(on_spark, lambda: rollup.compact(on_spark, layout, own)) <= 2
    assert nodes(by_tasks) == nodes(here)


def test_building_again_and_compacting_change_no_node(lake: Make) -> None:
    stream = lake()
    for part in range(2):
        stream.land(f"{part}.ndjson", "".join(json.dumps(r) + "\n" for r in random_readings(part, 60)))
        stream.take_in()
        build(stream)
    before = nodes(stream)

    assert build(stream) == {"batches": 0, "rows": 0}
    figures = maintain.run(stream.settings, stream.spark, "readings")

    assert nodes(stream) == before and figures["rows_after"] == len(before) + 1
    assert read_marker(stream.settings.layout.rollup("readings")).batch == 2


def test_changed_levels_are_refused_until_rebuilt(lake: Make, tmp_path: Path) -> None:
    stream = lake()
    stream.land("0.ndjson", "".join(json.dumps(r) + "\n" for r in random_readings(3, 60)))
    stream.take_in()
    build(stream)
    config = tmp_path / "tidemark.toml"
    config.write_text(config.read_text().replace('"1m forever"', '"5m forever"'))
    changed = Lake(stream.spark, load_settings(config))

    with pytest.raises(rollup.RollupOutdated, match="tidemark rebuild readings"):
        build(changed)
    build_rollups.rebuild(changed.settings, changed.spark, "readings")

    assert {row[2] % (300 * 10**6) for row in nodes(changed) if row[0] == 3} == {0}


def test_a_double_with_decimals_has_exact_sums_and_no_carry(
    spark: SparkSession, lakehouse_of: Callable[[str], Settings]
) -> None:
    exact = declared().replace('temp = "double"', 'temp = { type = "double", decimals = 3 }')
    stream = Lake(spark, lakehouse_of(exact))
    readings = random_readings(1, 60)
    stream.land("0.ndjson", "".join(json.dumps(r) + "\n" for r in readings))
    stream.take_in()
    build(stream)

    found = folded(stream.settings, "readings")

    assert [name for name in found.column_names if name.endswith("__carry")] == []
    top = [
        r["temp__sum"] for r in found.to_pylist() if (r["level"], r["grouping"]) == (3, 1) and r["temp__n"]
    ]
    assert sum(top) == sum(Decimal(str(r["temp"])) for r in readings if r["temp"] is not None)
