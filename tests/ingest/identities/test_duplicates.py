"""Repeats over whole batches: hashes as Spark's, verdicts as the yardstick's, whatever becomes of the index."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from decimal import Decimal
from functools import reduce
from operator import and_
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F

from lakehouse.algorithms.ingest.duplicates import ACCEPTED, CONFLICT, DUPLICATE
from lakehouse.config.stream import Stream
from lakehouse.ingest.identities.duplicates import judged
from lakehouse.ingest.identities.identities import fingerprints, hashes_of, identity_columns
from tests.oracles.ingest import duplicates_scan
from tests.support.readings_lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T0 = 1_600_000_000
TYPES = {
    "text": pa.string(),
    "number": pa.int64(),
    "real": pa.float64(),
    "truth": pa.bool_(),
    "exact": pa.decimal128(38, 3),
}


def declared(identity: tuple[str, ...], **more: Any) -> Stream:
    columns = {"text": "string", "number": "int", "real": "double", "truth": "boolean"}
    return Stream.model_validate(
        {
            "name": "s",
            "source": {"path": "x", "format": "ndjson"},
            "event_time": {"column": "number", "unit": "us"},
            "identity": identity,
            "levels": ["1d forever"],
            "columns": {**columns, "exact": {"type": "decimal", "decimals": 3}},
            **more,
        }
    )


TEXTS = ["", "a", "device-1", "ünïcode", "x" * 31, "x" * 32, "y" * 100, "four", "seven77", "twelve chars"]
VALUES: dict[str, list[Any]] = {
    "text": [None, *TEXTS],
    "number": [None, 0, 1, -1, 2**62, -(2**63)],
    "real": [None, 0.0, -0.0, 1.5, -1e300, 5e-324],
    "truth": [None, True, False],
    "exact": [None, *map(Decimal, ("0.000", "-0.001", "0.127", "0.128", "-0.128", "-0.129", "9" * 35))],
}


@pytest.mark.spark
def test_hashes_in_arrow_are_those_of_spark(spark: SparkSession) -> None:
    pick = random.Random(1)
    rows = {name: [pick.choice(values) for _ in range(500)] for name, values in VALUES.items()}
    table = pa.table({name: pa.array(values, TYPES[name]) for name, values in rows.items()})
    table = table.append_column("record_hash", pa.array([bytes([n % 256] * 16) for n in range(500)]))
    frame = spark.createDataFrame(table)
    names = list(TYPES)
    for identity in (*((name,) for name in names), tuple(names), tuple(reversed(names)), ("*",)):
        stream = declared(identity)
        for sliced in (table, table.slice(123)):
            hashes, has_one = hashes_of(sliced, stream)
            columns = identity_columns(stream)
            is_whole = reduce(and_, (F.col(name).isNotNull() for name in columns))
            hashed = frame.select(F.when(is_whole, F.xxhash64(*columns))).toArrow()[0]
            expected = hashed[500 - sliced.num_rows :]
            found = pa.array(hashes.view(np.int64), mask=~has_one)
            assert found.to_pylist() == expected.to_pylist(), identity


ROWS = st.lists(
    st.tuples(
        *(st.sampled_from(["a", "b", None]), st.integers(0, 2), st.integers(0, 30)),
        *(st.sampled_from([None, 1, 2]), st.booleans()),
    ),
    max_size=30,
)


@settings(deadline=None)
@given(rows=ROWS, within_us=st.integers(1, 40))
def test_rows_are_judged_as_the_yardstick_judges_them(rows: list[Any], within_us: int) -> None:
    """Whatever the order that Spark brings the rows in: processing order is arrival, then place."""
    stream = declared(("text",)).model_copy(update={"duplicates_within": within_us})
    complete = [(place, *row) for place, row in enumerate(rows) if row[0] is not None]
    ordered = sorted(complete, key=lambda row: (not row[-1], row[4] is not None, row[4] or 0, row[0]))
    identity, payload, event, _, known = (
        zip(*(row[1:] for row in ordered), strict=True) if ordered else [()] * 5
    )
    expected = duplicates_scan.verdicts(
        identity, list(zip(payload, event, strict=True)), event, known, within_us
    )
    places = [row[0] for row in ordered]
    wanted = {p: v for p, v, k in zip(places, expected, known, strict=True) if not k and v != ACCEPTED}

    def table(is_known: bool) -> pa.Table:
        mine = [(place, *row) for place, row in enumerate(rows) if row[-1] == is_known][::-1]
        columns = {
            "text": pa.array([row[1] for row in mine], pa.string()),
            "number": pa.array([row[2] for row in mine], pa.int64()),
            "event_us": pa.array([row[3] for row in mine], pa.int64()),
            "arrival_us": pa.array([row[4] for row in mine], pa.int64()),
            "source_file": pa.array(["f"] * len(mine), pa.string()),
            "source_line": pa.array([row[0] for row in mine], pa.int64()),
            "source_item": pa.array([0] * len(mine), pa.int32()),
        }
        nothing = {name: pa.nulls(len(mine), kind) for name, kind in TYPES.items() if name not in columns}
        return pa.table({**columns, **nothing})

    found = judged(table(False), table(True), stream)

    assert dict(zip(found["source_line"].to_pylist(), found["verdict"].to_pylist(), strict=True)) == wanted


@pytest.mark.spark
@pytest.mark.parametrize("seed", [1, 2])
def test_batches_split_anyhow_with_an_index_that_gets_lost_count_as_one_scan_does(
    lake: Callable[..., Lake], seed: int
) -> None:
    pick = random.Random(seed)
    stream = lake()
    accepted: list[Any] = []
    for batch in range(1, 6):
        lines, counts = [], dict.fromkeys((ACCEPTED, DUPLICATE, CONFLICT), 0)
        for _ in range(pick.randrange(1, 12)):
            second, device, temp = pick.randrange(12), pick.choice("ab"), float(pick.randrange(2))
            lines.append(json.dumps({"ts": T0 + second, "device": device, "temp": temp, "count": 1}))
            earlier = [t for d, s, t in accepted if (d, s) == (device, second)]
            verdict = ACCEPTED if not earlier else DUPLICATE if temp in earlier else CONFLICT
            counts[verdict] += 1
            if verdict == ACCEPTED:
                accepted.append((device, second, temp))
        stream.land(f"{batch}.ndjson", "\n".join([*lines, '{"ts": 1']) + "\n")
        if pick.random() < 0.4:
            shutil.rmtree(stream.settings.layout.identities("readings"), ignore_errors=True)
        stream.ingest()
        entry = stream.rows("ledger", "batch", "accepted", "duplicates", "quarantined", "received")[-1]
        expected = (counts[ACCEPTED], counts[DUPLICATE], counts[CONFLICT] + 1, len(lines) + 1)
        assert entry == (batch, *expected) and sum(expected[:3]) == expected[3]
    found = stream.rows("raw", "device", "event_us", "temp")
    assert found == sorted((d, (T0 + s) * 10**6, t) for d, s, t in accepted)


@pytest.mark.spark
def test_repeats_are_found_once_files_of_raw_are_merged_and_once_rows_were_retracted(
    lake: Callable[..., Lake],
) -> None:
    from delta.tables import DeltaTable

    stream = lake()
    raw = stream.settings.layout.raw("readings")
    for second in range(3):
        record = {"ts": T0 + second, "received": T0, "device": "a", "temp": 1.0, "count": 1}
        stream.land(f"{second}.ndjson", json.dumps(record) + "\n")
        stream.ingest()
    DeltaTable.forPath(stream.spark, str(raw)).optimize().executeCompaction()
    DeltaTable.forPath(stream.spark, str(raw)).delete(f"event_us = {(T0 + 1) * 10**6}")
    stream.land(
        "again.ndjson",
        "".join((Path(raw).parents[2] / "landing" / f"{n}.ndjson").read_text() for n in range(3)),
    )

    stream.ingest()

    assert stream.rows("ledger", "batch", "accepted", "duplicates")[-1] == (4, 1, 2)


@pytest.mark.spark
def test_raw_has_the_columns_that_it_was_created_with(lake: Callable[..., Lake]) -> None:
    """An ingest once gave it a column of messages, null in every row."""
    from lakehouse.spark import tables

    stream = lake()
    stream.land("a.ndjson", json.dumps({"ts": T0, "device": "a", "temp": 1.0}) + "\n")
    stream.ingest()

    columns = tables.read(stream.spark, stream.settings.layout.raw("readings")).columns

    assert not {"message", "row_id", "identity_hash"} & set(columns)


def test_identities_made_to_have_one_hash_are_told_apart_when_one_is_only_remembered() -> None:
    """Two rows whose XXH64 are equal, under both of two known seeds: anybody can make such."""
    stream = Stream.model_validate(
        {
            "name": "s",
            "source": {"path": "x", "format": "ndjson"},
            "event_time": {"column": "at", "unit": "us"},
            "identity": ("device", "number"),
            "levels": ["1d forever"],
            "columns": {"device": "int", "number": "int"},
        }
    )
    rows = pa.table(
        {
            "device": pa.array([-828666133918698568, 8125954516686851261]),
            "number": pa.array([5, -2794148441136338369]),
            "event_us": pa.array([0, 0]),
            "arrival_us": pa.array([0, 0]),
            "batch": pa.array([1, 2]),
            "source_file": ["a", "b"],
            "source_line": pa.array([1, 1]),
            "source_item": pa.array([0, 0], pa.int32()),
        }
    )
    remembered = fingerprints(rows.slice(0, 1), stream)

    assert hashes_of(rows, stream)[0].tolist()[0] == hashes_of(rows, stream)[0].tolist()[1]
    assert judged(rows.slice(1), None, stream, remembered).num_rows == 0
    assert judged(rows.slice(0, 1), None, stream, remembered)["verdict"].to_pylist() == [DUPLICATE]
