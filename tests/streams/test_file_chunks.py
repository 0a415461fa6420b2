"""Batches read chunk by chunk, held or spilled, become the same tables as those that tasks of Spark read."""

from __future__ import annotations

import errno
import gzip
import io
import os
import random
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs import build_rollups
from lakehouse.declare.settings import Settings, load_settings
from lakehouse.declare.stream import Source
from lakehouse.streams import file_chunks, ingest, small_batch
from lakehouse.streams.batch_records import BatchRecords, Progress, StreamTables
from lakehouse.streams.file_chunks import Kept, Spill
from lakehouse.streams.small_batch import SmallBatch, judged_here
from lakehouse.streams.sources import lines, parquet_rows
from lakehouse.streams.sources.manifest_store import ManifestStore
from tests.folded import folded, rows_of
from tests.readings import declared
from tests.readings_lake import Lake
from tests.streams.no_session import no_session
from tests.streams.test_small_batch import COLUMNS, T0, line

pytestmark = pytest.mark.spark
Make = Callable[..., Lake]
IDENTITIES = ['["device", "ts"]', "[]"]


def ndjson(pick: random.Random, batch: int) -> dict[str, bytes]:
    """Return files of which, in the second batch, one is cut off and one is no gzip."""
    lines = [line(pick) for _ in range(40)]
    zipped = gzip.compress("".join([*lines[:3], line(pick)]).encode())
    files = {f"{batch}a": "".join(lines).encode(), f"{batch}b.gz": zipped[: -9 * (batch == 1) or None]}
    return files | ({"c.gz": b"not gzip"} if batch == 1 else {})


def csv(pick: random.Random, batch: int) -> dict[str, bytes]:
    return {f"{batch}{name}": _csv(pick).encode() for name in "ab"}


def _csv(pick: random.Random) -> str:
    lines = ["ts,received,device,temp,count"]
    for _ in range(40):
        second = pick.randrange(12)
        usual = f"{T0 + second},{T0},{pick.choice('ab')},{pick.randrange(2)}.5,{pick.choice(['1', '', 'x'])}"
        lines.append(pick.choice([usual] * 8 + [usual + ",more", usual.replace(".5", " .5"), "\u00fc"]))
    return "\n".join(lines) + "\n"


def parquet(pick: random.Random, batch: int) -> dict[str, bytes]:
    """Return files of two kinds, one with texts that are no number, and in the second batch two that are damaged."""
    files = {f"{batch}{name}": _parquet(pick, name == "b") for name in "abc"}
    return files | (
        {"d": files["1c"][:-20], "e": files["1c"][:300] + b"\0" * 60 + files["1c"][360:]}
        if batch == 1
        else {}
    )


def _parquet(pick: random.Random, is_text: bool) -> bytes:
    count = 40
    temps: list[Any] = [pick.choice([0.5, 1.5, None]) for _ in range(count)]
    columns = {
        "ts": pa.array([float(T0 + pick.randrange(12)) for _ in range(count)]),
        "received": pa.array([T0] * count),
        "device": pa.array([pick.choice(["a", "b", "\u00fc", None]) for _ in range(count)]),
        "temp": pa.array([pick.choice(["hot", "1.5", None]) for _ in range(count)] if is_text else temps),
        "count": pa.array([pick.choice([1, None]) for _ in range(count)], pa.int64()),
    }
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink, row_group_size=16)
    return sink.getvalue()


FILES = {"ndjson": ndjson, "csv": csv, "parquet": parquet}


def small_chunks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lines, "BATCH_LINES", 7)
    patch.setattr(parquet_rows, "_ROWS_AT_ONCE", 7)


@pytest.mark.parametrize("identity", IDENTITIES)
@pytest.mark.parametrize("file_format", FILES)
def test_chunks_that_are_held_or_spilled_leave_the_tables_that_spark_leaves(
    lake: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file_format: str, identity: str
) -> None:
    held = lake(file_format)
    config = tmp_path / "tidemark.toml"
    config.write_text(config.read_text().replace('identity = ["device", "ts"]', f"identity = {identity}"))
    held, spilled, tasks = (Lake(held.spark, load_settings(config, tmp_path / name)) for name in "abc")
    pick, ways = random.Random(f"{file_format} {identity}"), list[bool]()

    def watched(records: BatchRecords) -> SmallBatch | None:
        judged = judged_here(records)
        ways.append(judged is not None)
        return judged

    monkeypatch.setattr(ingest, "judged_here", watched)
    for batch in range(2):
        for name, content in FILES[file_format](pick, batch).items():
            held.land(name, content)
        with monkeypatch.context() as patch:
            small_chunks(patch)
            held.ingest()
            patch.setattr(file_chunks, "HELD_BYTES", 0)
            spilled.ingest()
        with monkeypatch.context() as patch:
            patch.setattr(small_batch, "SMALL_BYTES", -1)
            tasks.ingest()

    assert ways == [True, True, False] * 2
    for table, columns in COLUMNS.items():
        expected = tasks.rows(table, *columns)
        assert held.rows(table, *columns) == expected, table
        assert spilled.rows(table, *columns) == expected, table
    assert {reason for (reason,) in tasks.rows("quarantine", "reason")} >= (
        {"conflict"} if identity != "[]" else {"bad_value"} if file_format != "csv" else {"malformed"}
    )
    nodes = []
    for each in (held, spilled, tasks):
        build_rollups.run(each.settings, each.spark, "readings")
        nodes.append(sorted(rows_of(folded(each.settings, "readings")), key=repr))
    assert nodes[0] == nodes[1] == nodes[2] != []


def test_rows_are_in_raw_in_processing_order_whatever_way_they_were_read(
    lake: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, pick = lake(), random.Random(1)
    small_chunks(monkeypatch)
    for name in "ab":
        lines = [line(pick) for _ in range(40)]
        # Of two shapes, which are typed one after the other.
        lines[::3] = [text.replace(', "count": 1', "") for text in lines[::3]]
        stream.land(name, "".join(lines))
    stream.ingest()

    (raw,) = stream.settings.layout.raw("readings").rglob("*.parquet")
    places = pq.read_table(raw, columns=["source_file", "source_line"]).to_pylist()

    assert len(places) > 10
    assert places == sorted(places, key=lambda place: (place["source_file"], place["source_line"]))


def begun(stream: Lake, held_bytes: int, patch: pytest.MonkeyPatch) -> SmallBatch:
    patch.setattr(file_chunks, "HELD_BYTES", held_bytes)
    target = StreamTables(stream.spark, stream.settings.layout, stream.settings.stream("readings"))
    target.create()
    store = ManifestStore(stream.settings.layout.manifests("readings"))
    store.add_files(target.stream.source)
    return SmallBatch(BatchRecords(target, store.manifests[0], store, Progress(0, None)))


@pytest.mark.parametrize("file_format", ["ndjson", "parquet"])
@pytest.mark.parametrize("held_bytes", [0, 10**6])
def test_a_conflict_keeps_its_bytes_where_its_file_is_another_by_then(
    lake: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file_format: str, held_bytes: int
) -> None:
    stream = lake(file_format)
    rows = [{"ts": T0, "received": T0, "device": "a", "temp": temp, "count": 1} for temp in (1.5, 2.5)]
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    said = [
        b'{"ts":%d,"received":%d,"device":"a","temp":%a,"count":1}' % (T0, T0, temp) for temp in (1.5, 2.5)
    ]
    stream.land("a", sink.getvalue() if file_format == "parquet" else b"\n".join(said))
    judged = begun(stream, held_bytes, monkeypatch)
    assert judged.stats.reasons == {"conflict": 1}
    (tmp_path / "landing" / "a").write_text("another\n" * 9)

    assert judged.rejected["record"].to_pylist() == said[1:]
    assert judged.rejected["source_line"].to_pylist() == [2]


def test_rows_of_parquet_that_do_not_fit_and_conflicts_start_no_session(
    lakehouse_of: Callable[[str], Settings],
) -> None:
    settings = lakehouse_of(declared("parquet"))
    stream = Lake(no_session(settings), settings)
    files: list[tuple[str, list[str], list[Any]]] = [
        ("a", ["a"], [1.5]),
        ("b", ["a", "\u00fc"], ["2.5", "2.50"]),
    ]
    for name, devices, temps in files:
        columns = {"ts": [T0] * len(temps), "received": [T0] * len(temps), "device": devices}
        sink = io.BytesIO()
        pq.write_table(pa.table(columns | {"temp": temps, "count": [1] * len(temps)}), sink)
        stream.land(name, sink.getvalue())
    counts = stream.ingest()
    assert (counts["accepted"], counts["quarantined"]) == (2, 1)


def test_a_full_disk_is_not_the_fault_of_a_parquet_file(lake: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = lake("parquet")
    stream.land("a", _parquet(random.Random(0), False))

    def put(_: Spill, __: pa.Table) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Spill, "put", put)
    with pytest.raises(OSError, match="No space left"):
        begun(stream, 0, monkeypatch).read()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_disk_without_room_for_an_object_is_not_its_fault(
    lake: Make, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    stream = lake("parquet")
    stream.land("a", _parquet(random.Random(0), False))

    def fetched() -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(parquet_rows, "is_remote", lambda _: True)
    monkeypatch.setattr(tempfile, "TemporaryFile", fetched)
    with pytest.raises(OSError, match=os.strerror(number)):
        begun(stream, 10**6, monkeypatch).read()


def test_rows_are_spilled_by_their_own_bytes_as_a_line_may_be_many(
    lake: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, spilled = (
        lake("csv", 'unpivot = { columns = "^c", name = "device", value = "temp" }'),
        list[int](),
    )
    text = f"ts,received,count,{','.join(f'c{n}' for n in range(100))}\n{T0},{T0},1{',1' * 100}\n"
    stream.land("a", text)

    def put(_: Spill, rows: pa.Table) -> Kept:
        spilled.append(rows.num_rows)
        return lambda: rows

    monkeypatch.setattr(Spill, "put", put)
    judged = begun(stream, 2 * len(text), monkeypatch)
    assert judged.stats.accepted == 100
    assert spilled == [100]


def test_wide_rows_of_parquet_are_decoded_fewer_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Texts that the file holds once.
    texts = pa.table({"text": pa.array(["x" * 1000, "y"]).take(pa.array([0, 1] * 50))})
    pq.write_table(texts, tmp_path / "a")
    monkeypatch.setattr(parquet_rows, "_ROWS", 10)

    source = Source.model_validate({"path": f"{tmp_path}/*", "format": "parquet"})

    def sizes(most: int) -> list[int]:
        monkeypatch.setattr(parquet_rows, "_BYTES_AT_ONCE", most)
        found = list(parquet_rows.numbered_rows("a", source))
        assert pa.Table.from_batches([rows for _, rows in found]) == texts
        assert [n for numbers, _ in found for n in numbers.to_pylist()] == list(range(1, 101))
        return [rows.num_rows for _, rows in found]

    assert sizes(10_000) == [20] * 5
    assert sizes(10**6) == [100]


def test_what_is_larger_or_on_a_cluster_and_more_than_is_held_is_left_to_tasks(
    lake: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = lake()
    stream.land("a.ndjson", "".join(line(random.Random(0)) for _ in range(10)))
    records = begun(stream, 100, monkeypatch).records
    assert judged_here(records) is not None

    with monkeypatch.context() as patch:
        patch.setattr(small_batch, "is_local", lambda _: False)
        patch.setattr(small_batch, "CLUSTER_BYTES", 100)
        assert judged_here(records) is None
        patch.setattr(small_batch, "CLUSTER_BYTES", 10**6)
        assert judged_here(records) is not None
    # A file that is larger by now than its manifest says.
    shorter = replace(records.manifest.files[0], size=10)
    monkeypatch.setattr(small_batch, "SMALL_BYTES", 100)
    assert judged_here(replace(records, manifest=replace(records.manifest, files=(shorter,)))) is None


def test_tables_come_back_from_a_spill_as_they_were() -> None:
    spill, tables = Spill(), [pa.table({"n": range(n), "t": ["\u00fc" * n] * n}) for n in range(5)]
    kept = [spill.put(table) for table in tables]
    found = [read() for read in kept]
    del spill
    assert found == tables
    assert [read() for read in kept] == tables
