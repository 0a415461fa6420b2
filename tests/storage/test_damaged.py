"""Files of a home that were emptied or cut off: each error names the file and says what to do."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakehouse.ingest.sources.manifest_store import ManifestStore
from lakehouse.queries.runtime.batch_manifest import BatchManifest, read_manifest, write_manifest
from lakehouse.settings import load_settings
from lakehouse.storage.control.lease import LeaseHeld
from lakehouse.storage.damaged import DamagedFile
from lakehouse.storage.layout import Home
from lakehouse.storage.tables.integrity import damage_in, naming_damage, tables_of
from lakehouse.storage.tables.table_log import read_columns, read_log
from tests.serving.streams import write_delta
from tests.storage.control.damaging import flip
from tests.support.readings import declared


def halve(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.fixture
def table(tmp_path: Path) -> Path:
    write_delta(pa.table({"batch": pa.array([1, 2], pa.int64())}), tmp_path / "table")
    return tmp_path / "table"


def test_a_commit_that_was_cut_off(table: Path) -> None:
    commit = next((table / "_delta_log").glob("*.json"))
    halve(commit)

    with pytest.raises(DamagedFile, match=rf"{commit} is damaged .*: restore it from a copy of the home"):
        read_log(table)


@pytest.mark.parametrize("content", [b"", b"PAR1"])
def test_rows_that_are_gone_from_their_file(table: Path, content: bytes) -> None:
    (file,) = table.glob("*.parquet")
    file.write_bytes(content)

    with pytest.raises(DamagedFile, match=rf"{file} is damaged"):
        read_columns(table, ("batch",))


def test_a_manifest_of_a_query(tmp_path: Path) -> None:
    folder = Home(tmp_path).batch_manifests("hot")
    write_manifest(folder, "batch", BatchManifest(1, ((0, 1),)))
    flip(folder, 1, "batch")

    with pytest.raises(DamagedFile, match="or start over with `tidemark queries --forget hot`"):
        read_manifest(folder, "batch", 1)


def test_a_manifest_of_a_stream(tmp_path: Path) -> None:
    (tmp_path / "tidemark.toml").write_text(declared())
    settings = load_settings(tmp_path / "tidemark.toml")
    folders = [settings.layout.manifests(name) for name in ("readings", "others")]
    for folder in folders:
        ManifestStore(folder).add_requeue(())
    flip(folders[0], 1)

    with pytest.raises(
        DamagedFile, match=r"manifest 1 of manifests/readings in the control store .* is damaged"
    ):
        ManifestStore(folders[0])
    assert len(ManifestStore(folders[1]).behind(0)) == 1


def test_whole_tables_have_no_damage_and_leave_an_error_as_it_is(tmp_path: Path) -> None:
    layout, error = Home(tmp_path), OSError("no route")
    write_delta(pa.table({"batch": pa.array([1, 2], pa.int64())}), layout.raw("alpha"))

    assert list(damage_in(tables_of(layout))) == []
    with pytest.raises(OSError, match="no route") as raised, naming_damage(layout):
        raise error
    assert raised.value is error


WAYS_OUT = {
    "raw/alpha": "restore it from a copy of the home",
    "rollup/alpha": "and `tidemark run` builds it again",
    "states/hot": "or start over with `tidemark queries --forget hot`",
    "quality": "restore it from a copy of the home",
}


@pytest.mark.parametrize("place", WAYS_OUT)
@pytest.mark.parametrize("how", ["deleted", "emptied", "halved", "overwritten", "its commit halved"])
def test_a_job_that_ends_by_damage_names_the_file_and_the_way_out(
    tmp_path: Path, place: str, how: str
) -> None:
    layout = Home(tmp_path)
    write_delta(pa.table({"batch": pa.array([1, 2], pa.int64())}), tmp_path / place)
    (file,) = (tmp_path / place).glob("*.parquet")
    if how == "deleted":
        file.unlink()
    elif how == "its commit halved":
        (file,) = (tmp_path / place / "_delta_log").glob("*.json")
        halve(file)
    else:
        size = file.stat().st_size
        file.write_bytes({"emptied": b"", "halved": file.read_bytes()[: size // 2]}.get(how, b"x" * size))

    # As DuckDB and Delta do, this names no file.
    with pytest.raises(DamagedFile) as raised, naming_damage(layout):
        raise OSError("Kernel error: Json error")

    assert str(raised.value).startswith(str(file))
    assert how == "its commit halved" or f"{WAYS_OUT[place]} (OSError: Kernel error: Json error)" in str(
        raised.value
    )


def test_an_error_of_ours_stays_what_it_is_beside_a_damaged_file(tmp_path: Path) -> None:
    layout = Home(tmp_path)
    write_delta(pa.table({"batch": pa.array([1], pa.int64())}), layout.raw("alpha"))
    next(Path(layout.raw("alpha")).glob("*.parquet")).unlink()

    with pytest.raises(LeaseHeld), naming_damage(layout):
        raise LeaseHeld("busy")
