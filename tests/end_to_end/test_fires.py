"""The two queries of the users on real rows: pairs of connections by the hour, and fires beside false alarms."""

from __future__ import annotations

import gzip
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from jobs import build_rollups, check_queries, ingest, publish, repair_late, run_queries
from lakehouse.serving.sandbox.sandbox import open_published
from lakehouse.settings import Settings, load_settings
from lakehouse.storage.tables.table_log import read_log
from tests.conftest import compile_plans
from tests.end_to_end.fires import Experiment, experiments, write_fires, write_offices
from tests.support.documented import about, deviations

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1200)]
STREAMS = ("conn", "packets", "heat", "oxygen", "offices")
QUERIES = ("backbone", "backbone_packets", "building_fire", "office_fire")
PARTS = 4
HOUR_US, MINUTE_US = 3_600_000_000, 60_000_000
# A join of a stream with itself has for each key the square of its rows.
PAIRS = f"""
    SELECT tick, CAST(sum(n * n) AS BIGINT) FROM (
        SELECT tick, src, dest, count(*) AS n
        FROM ticks JOIN raw ON raw.event_us BETWEEN tick - {HOUR_US} AND tick
        GROUP BY ALL
    ) GROUP BY tick ORDER BY tick
"""


@pytest.fixture(scope="module", params=["two", pytest.param("all", marks=pytest.mark.long)])
def fires(data: Path, request: pytest.FixtureRequest) -> list[Experiment]:
    """Every fire of part 1, and one of the house; or two of part 1, which have a tenth of all readings."""
    every = [fire for fire in experiments(data) if fire.start is None or fire.name.endswith("_15")]
    assert len(every) == 15
    return every if request.param == "all" else every[:14:7]


@pytest.fixture(scope="module")
def settings(
    data: Path, fires: list[Experiment], spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Settings:
    """The streams ingested, the queries run and repaired, and all of it published."""
    folder = tmp_path_factory.mktemp("fires")
    write_fires(fires, folder)
    write_offices(data, folder)
    root = Path(__file__).parents[2]
    text = (root / "tests" / "end_to_end" / "real.toml").read_text(encoding="utf-8")
    places = {"data": data, "rooms": folder, "fires": folder, "queries": root / "sql" / "queries"}
    for name, place in places.items():
        text = text.replace(f"{{{name}}}", str(place))
    text = text.replace(f"{data}/zeek-m57-conn/conn.log.gz", f"{folder}/conn/*.log")
    # Each file is whole when it is there; those of the fires were written a moment ago.
    text = re.sub(r"^format = .*$", r"\g<0>\nsettle = 0", text, flags=re.MULTILINE)
    (folder / "tidemark.toml").write_text(text, encoding="utf-8")
    found = load_settings(folder / "tidemark.toml")
    compile_plans(spark, True)
    for part in range(PARTS):
        land_connections(data, folder, part)
        ingest.run(found, spark, "conn")
        run_queries.run(found, spark, "backbone")
    for stream in STREAMS:
        ingest.run(found, spark, stream)
        build_rollups.run(found, spark, stream)
    for query in QUERIES:
        run_queries.run(found, spark, query)
        repair_late.run(found, spark, query)
        check_queries.run(found, spark, query)
    publish.run(found, spark, unchecked=True)
    compile_plans(spark, False)
    return found


def land_connections(data: Path, folder: Path, part: int) -> None:
    """Land a part of the log, as if it had been rotated: in the order in which connections ended."""
    with gzip.open(data / "zeek-m57-conn" / "conn.log.gz", "rt", encoding="utf-8") as file:
        lines = file.readlines()
    header = [line for line in lines if line.startswith("#") and not line.startswith("#close")]
    rows = [line for line in lines if not line.startswith("#")]
    own = rows[part * len(rows) // PARTS : (part + 1) * len(rows) // PARTS]
    (folder / "conn").mkdir(exist_ok=True)
    (folder / "conn" / f"{part}.log").write_text("".join([*header, *own]), encoding="utf-8")


def asked(settings: Settings, query: str) -> list[tuple[Any, ...]]:
    """Return rows of the published file."""
    with open_published(settings.layout) as published:
        return published.connection.execute(query).fetchall()


@pytest.mark.parametrize(("query", "stream"), [("backbone", "conn"), ("backbone_packets", "packets")])
def test_every_tick_has_the_pairs_of_the_last_hour(settings: Settings, query: str, stream: str) -> None:
    log = read_log(settings.layout.raw(stream))
    assert log is not None
    found = asked(settings, f"SELECT tick_us, count FROM answers_{query} ORDER BY tick_us")
    last = asked(settings, f"SELECT max(tick_us) FROM answers_{query}")[0][0]
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE raw AS FROM read_parquet($files)", {"files": [str(path) for path in log.files]}
        )
        connection.execute(f"""
            CREATE TABLE ticks AS SELECT DISTINCT tick FROM (
                SELECT unnest(range(
                    (event_us // {MINUTE_US}) * {MINUTE_US}, event_us + {HOUR_US} + 1, {MINUTE_US})) AS tick
                FROM raw
            ) WHERE tick <= {last}
        """)
        expected = connection.execute(PAIRS).fetchall()
    assert len(expected) > 400
    assert found == expected


def test_late_connections_revise_answers_at_once_or_by_the_repair(settings: Settings) -> None:
    found = dict(
        asked(settings, "SELECT found, count(*) FROM revisions_backbone WHERE revision > 0 GROUP BY ALL")
    )
    assert found["online"] > 0 and found["repair"] > 0


def test_every_fire_raises_an_alarm_within_minutes_and_nothing_else_does(
    settings: Settings, fires: list[Experiment]
) -> None:
    alarms = asked(
        settings, "SELECT location, raised_at FROM alarms_building_fire WHERE state <> 'withdrawn'"
    )
    raised = sorted(moment.replace(tzinfo=UTC) for _, moment in alarms)
    delays = {}
    for fire, following in zip(fires, [*fires[1:], None], strict=True):
        end = following.ignition if following else datetime.max.replace(tzinfo=UTC)
        own = [moment for moment in raised if fire.ignition <= moment < end]
        delays[fire.name] = min(own) - fire.ignition
    assert raised[0] >= fires[0].ignition
    assert len(delays) == len(fires)
    assert all(delay <= timedelta(minutes=5) for name, delay in delays.items() if name.startswith("Red"))


def test_offices_raise_one_false_alarm_where_a_broken_thermometer_meets_stale_air(settings: Settings) -> None:
    alarms = asked(settings, "SELECT location, raised_at FROM alarms_office_fire")
    assert [(place, moment.date()) for place, moment in alarms] == [
        ("Room 746", datetime(2013, 8, 30).date())
    ]


def test_documented_command_lines_about_fires_do_what_is_shown(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert deviations(about("fires"), settings.layout.root.parent, monkeypatch, capfd) == ""
