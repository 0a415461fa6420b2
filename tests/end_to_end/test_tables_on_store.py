"""A home whose tables are on an object store holds what one holds whose tables are in its folder, whatever dies.

Batches are small, so no job but a rebuild starts a JVM. With ``TIDEMARK_VERSITYGW`` the server too is killed. All kinds
of query, by Spark's tasks: ``tests/cluster``.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs import build_rollups, ingest, maintain, publish
from lakehouse.config.problems import ConfigError
from lakehouse.serving.ask.ask import ask
from lakehouse.serving.sandbox.sandbox import open_published, run_sql
from lakehouse.settings import Settings, load_settings
from lakehouse.spark.session import build_session
from lakehouse.storage.layout import Home
from lakehouse.storage.stores.store_path import StorePath
from lakehouse.storage.tables.integrity import damage_in, tables_of
from lakehouse.storage.tables.table_commits import open_table
from lakehouse.storage.tables.table_log import read_log, read_rows
from tests.end_to_end.pipeline import digest
from tests.support.crash_points import CRASH_POINTS
from tests.support.folded import folded, rows_of
from tests.support.killing import kill_fresh
from tests.support.stores.s3 import BUCKET, S3, SECRET, named, require_jars

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
CONFIG = """
{tables}
[streams.t]
event_time = {{ column = "ts", unit = "s" }}
identity = ["device", "ts"]
duplicates_within = "1d"
keys = ["device"]
measures = ["temp"]
groupings = [["device"], []]
levels = ["1s for 1h", "1m for 2d", "1h for 1y", "1d forever"]
[streams.t.source]
kind = "files"
path = "landing/*.csv"
format = "csv"
settle = "0s"
[streams.t.columns]
temp = "double"
"""
T0 = 1_700_000_000
# Jobs by the first word of the crash points that each such life passes.
_PASSED = {"table": "ingest", "ingest": "ingest", "rollup": "rollup"}
PIPELINE = "tests.end_to_end.pipeline"
JOBS = ("ingest", "rollup", "maintain", "publish")
# Makes a stream's rollup again, and prints how many rows Spark finds in it.
REBUILD = """
import sys
from pathlib import Path

from jobs import build_rollups
from lakehouse.settings import load_settings
from lakehouse.spark import tables
from lakehouse.spark.session import build_session

settings = load_settings(Path(sys.argv[1]))
spark = build_session(settings)
build_rollups.rebuild(settings, spark, "t")
print(tables.read(spark, settings.layout.rollup("t")).count())
"""


@pytest.fixture(scope="module")
def store() -> Iterator[S3]:
    require_jars()
    with named() as server:
        yield server


def begin(folder: Path, tables: str | None = None) -> Settings:
    """Write the configuration of a home, with its tables on the store or in its folder."""
    (folder / "landing").mkdir(parents=True)
    told = f'[tables]\npath = "{tables}"' if tables else ""
    (folder / "tidemark.toml").write_text(CONFIG.format(tables=told))
    return load_settings(folder / "tidemark.toml")


def land(settings: Settings, part: int, rows: int = 400) -> None:
    """Land rows, of which some repeat those of the part before, and one is wrong."""
    drawn = random.Random(part)
    lines = [
        f"d{n % 5},{T0 + n * 17},{drawn.random():.4f}"
        for n in range(part * rows // 2, part * rows // 2 + rows)
    ]
    content = "\n".join(["device,ts,temp", *lines, "d1,x,3"]) + "\n"
    (Path(settings.streams["t"].source.path).parent / f"{part}.csv").write_text(content)


def require_tables_on_store(there: Settings, secret: str) -> None:
    """Require that a home has no table in its folder, whole ones on its store, and no word of the secret."""
    assert not list(there.home.rglob("*.parquet")) and not list(there.home.rglob("_delta_log"))
    # Whoever is given the home alone finds them.
    assert [table.parent.name for table in tables_of(Home(there.home))] == [
        *("ledger", "profile", "quarantine", "raw", "rollup"),
    ]
    assert list(damage_in(tables_of(there.layout))) == []
    words = [path.read_text("utf-8", "replace") for path in there.home.rglob("*") if path.is_file()]
    assert not [text for text in words if secret in text]


def run(settings: Settings) -> None:
    """Run every job, none of which needs Spark."""
    spark = build_session(settings)
    for each in (ingest, build_rollups, maintain):
        each.run(settings, spark, "t")
    publish.run(settings, spark, unchecked=True)


def content(settings: Settings) -> dict[str, Any]:
    """Return what the tables hold and what is answered, but for how it came about."""
    layout, counts = settings.layout, ("records", "accepted", "quarantined", "duplicates")
    raw = read_rows(layout.raw("t"))
    ledger = read_rows(layout.ledger("t"))
    asked = ask(
        settings.home, "t", "temp", "sum", "2023-11-14T22:20:00", "2023-11-15", by=["device"], exact=True
    )
    return {
        "raw": digest([row["event_us"], row["device"], row["temp"]] for row in raw),
        "quarantine": len(read_rows(layout.quarantine("t"))),
        "ledger": [sum(row[name] for row in ledger) for name in counts],
        "nodes": digest(rows_of(folded(settings, "t"))),
        "answers": digest([found.key["device"], found.value, found.rows] for found in asked),
    }


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a home holds whose tables are in its folder."""
    here = begin(tmp_path_factory.mktemp("here"))
    for part in range(2):
        land(here, part)
        run(here)
    return content(here)


def test_tables_on_a_store_hold_what_those_of_a_folder_hold_though_a_driver_is_killed(
    store: S3, tmp_path: Path, expected: dict[str, Any]
) -> None:
    there = begin(tmp_path, f"s3://{BUCKET}/same")
    for part in range(2):
        land(there, part)
        if part:
            kill_fresh("ingest.raw-appended", "jobs.ingest", "--config", str(there.config), "t")
        run(there)

    assert content(there) == expected
    require_tables_on_store(there, SECRET)

    log = read_log(there.layout.raw("t"))
    assert log is not None
    gone = next(iter(log.files))
    gone.unlink()
    assert [f"{gone} is gone" in told for told in damage_in(tables_of(there.layout))] == [True]


def rebuild(settings: Settings) -> int:
    """Rebuild in a process of its own, as the session that tests share may lack the jars; return what Spark counts."""
    command = [sys.executable, "-c", REBUILD, str(settings.config)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return int(ended.stdout.split()[-1])


def test_a_whole_rollup_is_rebuilt_for_another_declaration(store: S3, tmp_path: Path) -> None:
    homes = [begin(tmp_path / "rebuilt", f"s3://{BUCKET}/rebuilt"), begin(tmp_path / "declared_so")]
    land(homes[0], 0, 200)
    run(homes[0])
    for place, home in enumerate(homes):
        config = Path(str(home.config))
        text = config.read_text().replace('"1h for 1y", ', "").replace('[["device"], []]', '[["device"]]')
        config.write_text(text)
        homes[place] = load_settings(config)
    there, here = homes
    rollup, by_spark = there.layout.rollup("t"), rebuild(there)
    # Spark, deltalake and what reads logs by itself find the same rows.
    log = read_log(rollup)
    assert log is not None and log.rows == by_spark == len(read_rows(rollup))
    assert log.rows == open_table(rollup).to_pyarrow_dataset().count_rows()

    land(there, 1, 200)
    run(there)
    for part in range(2):
        land(here, part, 200)
        run(here)

    assert content(there) == content(here)
    assert not list(damage_in([rollup]))


def test_machines_that_share_nothing_but_the_store_read_what_is_published(store: S3, tmp_path: Path) -> None:
    here, elsewhere = begin(tmp_path / "here", f"s3://{BUCKET}/read"), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "tables.json").write_text(f'{{"path": "s3://{BUCKET}/read"}}')
    publishes = (PIPELINE, str(here.config), "publish")
    words = ("t", "temp", "sum", "2023-11-14T22:00:00", "2023-11-15")
    land(here, 0, 100)
    run(here)
    assert ask(elsewhere, *words) == ask(here.home, *words)

    land(here, 1, 100)
    spark = build_session(here)
    ingest.run(here, spark, "t")
    build_rollups.run(here, spark, "t")
    kill_fresh("publish.uploaded", *publishes)
    assert [found.as_of_version for found in ask(elsewhere, *words)] == [1]
    kill_fresh("publish.listed", *publishes)
    # It is published, though its publisher has not seen it itself.
    assert [found.as_of_version for found in ask(elsewhere, *words)] == [2]
    assert publish.run(here, spark, unchecked=True)["is_new"] is False
    assert ask(elsewhere, *words) == ask(here.home, *words)
    with open_published(elsewhere) as reader:
        assert run_sql(reader, "SELECT sum(accepted) FROM ledger").rows == [[150]]
    # One of the first version, and of the second one what each of the two uploaded.
    objects = StorePath(f"s3://{BUCKET}/read/serving/files")
    assert sorted(path.name[:8] for path in objects.iterdir()) == ["00000001", "00000002", "00000002"]


@pytest.mark.long
def test_a_driver_that_is_killed_anywhere_loses_nothing(
    store: S3, tmp_path: Path, expected: dict[str, Any]
) -> None:
    there = begin(tmp_path, f"s3://{BUCKET}/killed")
    land(there, 0)
    run(there)
    land(there, 1)
    for point in (CRASH_POINTS[0], "table.files-written", *CRASH_POINTS[1:]):
        if point.partition(".")[0] in _PASSED:
            kill_fresh(point, PIPELINE, str(there.config), _PASSED[point.partition(".")[0]])
    run(there)

    assert content(there) == expected


@pytest.mark.long
def test_a_server_that_is_killed_ends_jobs_with_its_address_and_they_go_on_once_it_is_back(
    store: S3, tmp_path: Path, expected: dict[str, Any]
) -> None:
    if not store.is_real:
        pytest.skip("moto forgets its objects: set TIDEMARK_VERSITYGW to a server that keeps them")
    there = begin(tmp_path, f"s3://{BUCKET}/away")
    land(there, 0)
    run(there)
    land(there, 1)
    for job in JOBS:
        for delay in (0.0, 1.5):
            running_job = subprocess.Popen(
                [sys.executable, "-m", PIPELINE, str(there.config), job],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            time.sleep(delay)
            store.kill()
            said, _ = running_job.communicate(timeout=300)
            store.start()
            assert SECRET not in said
        run(there)

    assert content(there) == expected


def test_a_home_whose_tables_are_elsewhere_than_its_configuration_says_is_refused(
    store: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = begin(tmp_path, f"s3://{BUCKET}/first")
    land(there, 0)
    ingest.run(there, build_session(there), "t")
    config = tmp_path / "tidemark.toml"

    config.write_text(config.read_text().replace("/first", "/second"))
    with pytest.raises(ConfigError, match=f"s3://{BUCKET}/first, where this home has its tables"):
        load_settings(config)
    config.write_text(CONFIG.format(tables=""))
    with pytest.raises(ConfigError, match="home has its tables"):
        load_settings(config)
    monkeypatch.setenv("TIDEMARK_TABLES__PATH", f"s3://{BUCKET}/first")
    assert load_settings(config).layout.tables == there.layout.tables


@pytest.mark.parametrize(
    "path",
    [
        "s3://key:never@bucket/x",
        "s3://",
        "ftp://bucket/x",
        "/tables",
        "s3://bucket/../x",
        "abfss://in:never@lake.dfs.core.windows.net/x",
        "abfss://in/x",
    ],
)
def test_what_is_no_place_on_a_store_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(ConfigError) as refused:
        begin(tmp_path, path)
    assert "s3://bucket/prefix" in str(refused.value) and "never" not in str(refused.value)
