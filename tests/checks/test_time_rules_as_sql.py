"""Rules over time say of any stream, in any batches, what SQL says of the files that came in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs import build_rollups, ingest
from lakehouse.checks.checks import measure, open_tables
from lakehouse.checks.time_rules import timeline_of
from lakehouse.engine.local import LocalEngine
from lakehouse.settings import load_settings
from lakehouse.storage.checked import Checked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONFIG = """
[streams.meters]
event_time = { column = "at", unit = "iso" }
keys = ["device"]
measures = ["energy"]
counters = ["energy"]
groupings = [["device"], []]
levels = ["1m for 90d", "1h for 1y", "1d forever"]
columns.energy = "int"
columns.device = "string"
source = { path = "landing/*.csv", format = "csv", settle = 0 }
"""
RULES = (
    'freshness = "15m"',
    'volume = { per = "1h", min = 2, max = 6, over = "3d", wait = "30m" }',
    'name = "learned"\nvolume = { per = "6h", learned = true, spreads = 1, over = "2d", wait = 0 }',
    'silent = { key = "device", after = "6h", within = "2d" }',
    "late_share = { max = 0.1 }",
    'missing_share = { column = "energy", max = 0.1 }',
    'new_columns = { ignore = ["b"] }',
    'counter_resets = { column = "energy", max = 2, over = "7d" }',
    'drift = { column = "device" }',
    'drift = { column = "energy" }',
)
# A Wednesday; the day before is compared with Tuesdays.
NOW = datetime(2020, 3, 11, 9, 20, tzinfo=UTC)
# Rows in order of their file, as text has them; times in microseconds; now, and the last batch that is not new.
ROWS = """
CREATE MACRO us(t) AS epoch_us(t::TIMESTAMP);
CREATE TABLE read AS SELECT us("at") AS t, device, energy, row_number() OVER () AS number,
    regexp_extract(filename, '/(\\d+)_', 1)::INT AS batch, filename AS file
    FROM read_csv('{folder}/*.csv', filename = true, union_by_name = true, types = {{'energy': 'BIGINT'}});
CREATE TABLE own AS SELECT *, batch > {since} AS is_new, t < greatest(
    coalesce(max(t) OVER (PARTITION BY file ORDER BY number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), -1),
    coalesce((SELECT max(t) FROM read AS other WHERE other.batch < read.batch), -1)) AS is_late FROM read;
CREATE MACRO now_us() AS us('{now}');
CREATE MACRO hours(n) AS n * 3600000000;
CREATE MACRO counted(n, since_us, end_us) AS TABLE SELECT start,
    (SELECT count(*) FROM own WHERE t // hours(n) * hours(n) = start) AS rows FROM (SELECT unnest(generate_series(
    greatest(since_us, (SELECT -(-min(t) // hours(n)) * hours(n) FROM own)), end_us - 1, hours(n))) AS start);
"""
EXPECTED = {
    "freshness": "SELECT greatest(now_us() - max(t) - hours(1) / 4, 0) / 1e6 FROM own",
    "volume": """SELECT count(*) FILTER (rows NOT BETWEEN 2 AND 6) FROM (SELECT (now_us() - hours(1) // 2) // hours(1)
        * hours(1) AS ended), counted(1, ended - hours(72), ended)""",
    "learned": """WITH known AS (FROM counted(6, 0::BIGINT, now_us() // hours(6) * hours(6))),
        pairs AS (SELECT now.start, now.rows, old.rows AS old, median(old.rows) OVER (PARTITION BY now.start) AS mid
            FROM known AS now, known AS old WHERE now.start >= now_us() // hours(6) * hours(6) - hours(48)
            AND (now.start - old.start) % hours(168) = 0 AND (now.start - old.start) // hours(168) BETWEEN 1 AND 26)
        SELECT count(*) FROM (SELECT start, any_value(rows) AS rows, any_value(mid) AS mid,
            greatest(1.4826 * median(abs(old - mid)), sqrt(any_value(mid)), 1) AS spread, count(*) AS weeks FROM pairs
            GROUP BY start) WHERE weeks >= 4 AND abs(rows - mid) > spread""",
    "silent_device": """SELECT count(*) FILTER (last < now_us() - hours(6)) FROM (SELECT max(t) AS last FROM own
        WHERE device IS NOT NULL GROUP BY device) WHERE last >= now_us() - hours(48)""",
    "late_share": """SELECT greatest(count(*) FILTER (is_late) - floor(0.1 * count(*) + 1e-6), 0)
        FROM own WHERE is_new""",
    "missing_share_energy": """
        SELECT greatest(count(*) FILTER (energy IS NULL OR energy < 0) - floor(0.1 * count(*) + 1e-6), 0)
        FROM own WHERE is_new""",
    "counter_resets_energy": """WITH first AS (SELECT (now_us() - hours(168)) // hours(24) * hours(24) AS us),
        pairs AS (SELECT device, t // hours(24) AS day, energy < lag(energy) OVER (PARTITION BY device ORDER BY t)
            AS falls FROM own WHERE energy >= 0 AND t >= (SELECT us - hours(24) FROM first))
        SELECT count(*) FROM (SELECT count(*) FILTER (falls) AS n FROM pairs
            WHERE day * hours(24) >= (SELECT us FROM first) GROUP BY device, day) WHERE n > 2""",
    "drift_device": """WITH days AS (SELECT t // hours(24) - now_us() // hours(24) + 1 AS day, device FROM own
            WHERE day IN (0, -7, -14, -21, -28) AND device IS NOT NULL),
        sizes AS (SELECT count(*) FILTER (day = 0) AS n, count(*) FILTER (day < 0) AS m FROM days),
        shares AS (SELECT greatest(count(*) FILTER (day = 0) / any_value(n), 1e-4) AS p,
            greatest(count(*) FILTER (day < 0) / any_value(m), 1e-4) AS q FROM days, sizes GROUP BY device)
        SELECT CASE WHEN (SELECT least(n, m) FROM sizes) < 100 THEN 0
            ELSE greatest(sum((p - q) * ln(p / q)) - 0.2, 0) END FROM shares""",
    "drift_energy": """WITH days AS (SELECT t // hours(24) - now_us() // hours(24) + 1 AS day, energy AS v FROM own
            WHERE day IN (0, -7, -14, -21, -28) AND v >= 0),
        sizes AS (SELECT count(*) FILTER (day = 0) AS n, count(*) FILTER (day < 0) AS m FROM days),
        sorted AS (SELECT list(v ORDER BY v) AS all_of FROM days WHERE day < 0),
        ends AS (SELECT DISTINCT all_of[round_even(tenth * (len(all_of) - 1) / 10, 0)::INT + 1] AS v
            FROM sorted, (SELECT unnest(range(1, 10)) AS tenth)),
        bins AS (SELECT day, (SELECT count(*) FROM ends WHERE ends.v < days.v) AS bin FROM days),
        shares AS (SELECT greatest((SELECT count(*) FROM bins WHERE bins.bin = one.bin AND day = 0) / n, 1e-4) AS p,
            greatest((SELECT count(*) FROM bins WHERE bins.bin = one.bin AND day < 0) / m, 1e-4) AS q
            FROM (SELECT unnest(range((SELECT count(*) + 1 FROM ends))) AS bin) AS one, sizes)
        SELECT CASE WHEN (SELECT least(n, m) FROM sizes) < 100 THEN 0
            ELSE greatest(sum((p - q) * ln(p / q)) - 0.2, 0) END FROM shares""",
}


def stream_of(seed: int, folder: Path, batches: int) -> list[list[Path]]:
    """Write files of random rows of six weeks, most of them on Tuesdays; return those of each batch."""
    dice = np.random.default_rng(seed)
    count, devices = int(dice.integers(300, 2000)), int(dice.integers(1, 6))
    days = np.where(
        dice.random(count) < 0.75, 7 * dice.integers(0, 6, count) + 1, dice.integers(0, 42, count)
    )
    minute = dice.integers(0, 1440, count) - 1440 * days
    keys = dict.fromkeys(zip(minute.tolist(), dice.integers(0, devices, count).tolist(), strict=True))
    midnight = NOW.replace(hour=0, minute=0)
    rows = [
        (midnight + timedelta(minutes=at), device)
        for at, device in keys
        if midnight + timedelta(minutes=at) <= NOW
    ]
    # Of the last Tuesday some devices are not heard, and readings are higher.
    shift, quiet = int(dice.integers(0, 20)), int(dice.integers(0, devices))
    last = midnight - timedelta(days=1)
    rows = [row for row in rows if row[0] < last or row[1] >= quiet]
    # In order but for some that are late by up to two days.
    late = np.where(dice.random(len(rows)) < 0.15, dice.random(len(rows)) * 2, 0)
    rows = [
        rows[at]
        for at in sorted(range(len(rows)), key=lambda at: rows[at][0] + timedelta(days=float(late[at])))
    ]
    cuts = np.sort(dice.integers(0, len(rows), 2 * batches - 1))
    found: list[list[Path]] = []
    for number, part in enumerate(np.split(np.arange(len(rows)), cuts)):
        more = [name for name in "abc" if number > 1 and dice.random() < 0.1]
        lines = [",".join(["at", "device", "energy", *more])]
        for at in part:
            time, device = rows[at]
            reading = "" if dice.random() < 0.1 else str(int(dice.integers(-1, 40) + shift * (time >= last)))
            key = "" if dice.random() < 0.02 else f"d{device}"
            lines.append(",".join([f"{time:%Y-%m-%dT%H:%M:%S}", key, reading, *("x" for _ in more)]))
        path = folder / f"{number // 2 + 1}_{number % 2}.csv"
        path.write_text("\n".join(lines) + "\n")
        found += [[path]] if number % 2 == 0 else []
        found[-1] += [path] if number % 2 else []
    return found


def judged(
    folder: Path, session: SparkSession, files: list[list[Path]], since: int
) -> dict[str, tuple[float, str]]:
    """Take files in; return how far each rule is from holding of batches after one, and what was seen."""
    (folder / "tidemark.toml").write_text(
        CONFIG + "".join(f"[[streams.meters.rules]]\n{rule}\n" for rule in RULES)
    )
    found = load_settings(folder / "tidemark.toml")
    (folder / "landing").mkdir()
    for batch in files:
        for path in batch:
            path.rename(folder / "landing" / path.name)
        ingest.run(found, session, "meters")
        build_rollups.run(found, session, "meters")
    layout, stream = found.layout, found.streams["meters"]
    tables = open_tables(layout, stream, Checked())
    assert tables is not None
    line = timeline_of(layout, stream, (since, tables.through), False, int(NOW.timestamp()) * 1_000_000)
    frames, _ = measure(tables, LocalEngine(), line)
    return {
        name: (float(frame.rows[0][name]), seen)
        for frame in frames
        for name, seen in frame.seen.items()
        if frame.says
    }


@pytest.mark.slow
@settings(max_examples=4)
@given(seed=st.integers(0, 2**32), batches=st.integers(1, 4), since=st.integers(0, 3))
def test_rules_over_time_are_what_sql_says_of_the_files_in_any_batches(
    seed: int, batches: int, since: int, session: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("any")
    files, since = stream_of(seed, folder, batches), min(since, batches - 1)

    found = judged(folder, session, files, since)

    with duckdb.connect() as connection:
        connection.execute(
            ROWS.format(folder=folder / "landing", since=since, now=f"{NOW:%Y-%m-%d %H:%M:%S}")
        )
        expected = {name: connection.execute(query).fetchall()[0][0] for name, query in EXPECTED.items()}
    assert {name: found[name][0] for name in EXPECTED} == pytest.approx(expected, abs=1e-9)
    assert found["new_columns"][0] == len(new_fields(folder / "landing", since))


def new_fields(landing: Path, since: int) -> set[str]:
    """Return the fields of files after a batch that no file before had, nor one of the first batch, but the ignored."""
    fields: dict[int, set[Any]] = {}
    for path in landing.glob("*.csv"):
        own = path.read_text().partition("\n")[0].split(",")
        fields.setdefault(int(path.name.partition("_")[0]), set()).update(own)
    known = set().union(*(own for batch, own in fields.items() if batch <= max(since, 1)))
    return set().union(*fields.values()) - known - {"b"}
