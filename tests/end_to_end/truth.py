"""Truth about the real sets, read by DuckDB straight from the files: no line of Tidemark's own is in the way."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb

US = "CAST(floor(CAST({} AS DECIMAL(28, 9)) * {}) AS BIGINT)"
CONN_FIELDS = (
    "ts, uid, src, src_port, dest, dest_port, proto, service, duration, orig_bytes, resp_bytes, state, local_orig, "
    "missed, history, orig_packets, orig_ip_bytes, resp_packets, resp_ip_bytes, parents"
)


def rows_of(data: Path, rooms: Path) -> dict[str, str]:
    """Return per stream the query of its rows: event_us, key (the first one, as text) and every measure."""
    conn = ", ".join(f"'{name}': 'VARCHAR'" for name in CONN_FIELDS.split(", "))
    return {
        "telemetry": f"""
            SELECT {US.format("json ->> '$.ts'", 1000000)} AS event_us, json ->> '$.device' AS key,
                CAST(json ->> '$.data.temp' AS DOUBLE) AS temp,
                CAST(json ->> '$.data.humidity' AS DOUBLE) AS humidity
            FROM read_ndjson_objects('{data}/env-telemetry/*.ndjson.gz')""",
        "rooms": f"""
            SELECT CAST(column01 AS BIGINT) * 1000 AS event_us, trim(column03) AS key,
                CAST(column04 AS DECIMAL(18, 3)) AS temp, CAST(column05 AS DOUBLE) AS humidity,
                CAST(column08 AS BIGINT) AS occupants
            FROM read_csv('{rooms}/*.csv', header = false, all_varchar = true)""",
        "conn": f"""
            SELECT {US.format("ts", 1000000)} AS event_us, proto AS key,
                CAST(nullif(orig_bytes, '-') AS BIGINT) AS orig_bytes,
                CAST(nullif(resp_bytes, '-') AS BIGINT) AS resp_bytes,
                CAST(nullif(duration, '-') AS DOUBLE) AS duration
            FROM read_csv('{data}/zeek-m57-conn/conn.log.gz', delim = '\t', header = false, auto_detect = false,
                quote = '', comment = '#', columns = {{{conn}}})""",
        "lora": f"""
            SELECT DISTINCT ON (device, frame, key, time, rssi, snr)
                epoch_us(CAST(time AS TIMESTAMPTZ)) AS event_us, key, CAST(rssi AS BIGINT) AS rssi,
                CAST(snr AS DOUBLE) AS snr
            FROM (
                SELECT json ->> '$.devEUI' AS device, json ->> '$.fCnt' AS frame, heard ->> '$.gatewayID' AS key,
                    heard ->> '$.time' AS time, heard ->> '$.rssi' AS rssi, heard ->> '$.loRaSNR' AS snr,
                    CAST(json ->> '$._timestamp' AS BIGINT) * 1000 AS arrival_us
                FROM (
                    SELECT json, unnest(CAST(json -> '$.rxInfo' AS JSON[])) AS heard
                    FROM read_ndjson_objects('{data}/lorawan-sensors/d1*.ndjson.gz')
                )
            )
            WHERE time IS NOT NULL
                AND arrival_us - epoch_us(CAST(time AS TIMESTAMPTZ)) BETWEEN -3600000000 AND 2592000000000""",
        "flows": f"""
            SELECT CAST(column28 AS BIGINT) * 1000000 AS event_us, column04 AS key,
                CAST(column07 AS BIGINT) AS sbytes, CAST(column08 AS BIGINT) AS dbytes,
                CAST(column06 AS DOUBLE) AS dur
            FROM (SELECT DISTINCT * FROM read_csv('{data}/unsw-nb15-flows/*.csv.gz', header = false, skip = 1,
                all_varchar = true))""",
    }


def truths(connection: duckdb.DuckDBPyConnection, stream: str, measure: str) -> dict[int, tuple[Any, ...]]:
    """Return per asked range (table ``asked``: id, a_us, b_us, key or null) count, sum, average, min and max.

    Exact columns are added exactly and rounded once, doubles with compensation.
    """
    row = connection.execute(f"SELECT typeof({measure}) FROM {stream} LIMIT 1").fetchone()
    total = "fsum" if row is None or row[0] == "DOUBLE" else "sum"
    found = connection.execute(f"""
        SELECT id, count({measure}), {total}({measure}), min({measure}), max({measure})
        FROM asked LEFT JOIN {stream}
            ON event_us >= a_us AND event_us < b_us AND (asked.key IS NULL OR asked.key = {stream}.key)
        GROUP BY id""").fetchall()
    return {
        number: (
            count,
            _double(total),
            float(Fraction(total) / count) if count else None,
            *map(_double, extremes),
        )
        for number, count, total, *extremes in found
    }


def _double(value: Any) -> float | None:
    return None if value is None else float(value)
