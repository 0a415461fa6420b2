"""The published file over HTTP, as another DuckDB reads it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import duckdb
import httpx
import pytest

from lakehouse.serving.ask.ask import ask
from lakehouse.serving.publish.publish import publish
from lakehouse.serving.sandbox.sandbox import open_published
from lakehouse.serving.segments import merge
from lakehouse.serving.versions.versions import segments_of
from lakehouse.storage.layout import Home
from tests.serving.conftest import STREAMS
from tests.web.conftest import TOKEN, client_of, held_versions, served

_SPEC = find_spec("duckdb_extension_httpfs")
HTTPFS = (
    Path((_SPEC.submodule_search_locations or [""])[0] if _SPEC else "")
    / "extensions"
    / f"v{duckdb.__version__}"
    / "httpfs.duckdb_extension"
)


def _reader() -> duckdb.DuckDBPyConnection:
    """Return a DuckDB that reads over HTTP, as any user's does after INSTALL httpfs."""
    connection = duckdb.connect()
    connection.execute(f"LOAD '{HTTPFS}'")
    connection.execute(f"CREATE SECRET (TYPE http, BEARER_TOKEN '{TOKEN}')")
    return connection


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home whose version reads a segment beside its own file."""
    folder = tmp_path_factory.mktemp("file")
    found = Home(folder / "home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merge, "OWN_NODES", 1)
        publish(found, [STREAMS["deep"].write(folder / "deep")])
    with open_published(found) as reader:
        assert segments_of(reader.hold.path)
    return found


@pytest.mark.slow
def test_another_duckdb_attaches_the_version_and_has_its_macros(home: Home) -> None:
    (expected,) = ask(home, "deep", "hits", "sum", 7, 1234)
    with served(home) as address, _reader() as connection:
        connection.execute(httpx.get(f"{address}/latest/attach.sql").text)
        found = connection.execute(
            "SELECT value, low, high FROM range_sum('deep', 'hits', make_timestamp(7), make_timestamp(1234))"
        ).fetchone()
        with pytest.raises(duckdb.Error):
            connection.execute("DELETE FROM streams")

    assert found == (expected.value, expected.low, expected.high)


def test_ranges_of_bytes_are_those_of_the_file(home: Home) -> None:
    with open_published(home) as reader:
        whole = reader.hold.path.read_bytes()
    with served(home) as address:
        url = f"{address}/v/1/tidemark.duckdb"
        part = httpx.get(url, headers={"Range": "bytes=10-19"})
        head = httpx.head(url)
        everything = httpx.get(url)
        known = httpx.get(url, headers={"If-None-Match": everything.headers["etag"]})
        too_far = httpx.get(url, headers={"Range": f"bytes={len(whole)}-"})
        other = httpx.get(f"{address}/v/1/segments/../current.duckdb")

    assert (part.status_code, part.content) == (206, whole[10:20])
    assert (head.headers["content-length"], head.content) == (str(len(whole)), b"")
    assert everything.content == whole
    assert "immutable" in everything.headers["cache-control"]
    assert (known.status_code, too_far.status_code, other.status_code) == (304, 416, 404)


def test_a_segment_has_the_same_validator_in_every_version(home: Home) -> None:
    with open_published(home) as reader:
        (segment,) = segments_of(reader.hold.path)
    with served(home) as address:
        found = httpx.head(f"{address}/v/1/segments/{segment}.duckdb")
        missing = httpx.get(f"{address}/v/1/segments/99999999.duckdb")

    assert found.headers["etag"] == f'"segment-{segment}"'
    assert missing.status_code == 404


@pytest.mark.slow
def test_a_refused_range_leaves_nothing_open(home: Home) -> None:
    with client_of(home) as client:
        size = int(client.head("/latest/tidemark.duckdb").headers["content-length"])
        client.get("/latest/segments/999.duckdb")
        before = held_versions()
        for asked in ("bytes=nonsense", f"bytes={size + 1}-", "bytes=5-1") * 5:
            refused = client.get("/latest/tidemark.duckdb", headers={"Range": asked})
            assert refused.status_code in (400, 416), asked
            assert client.get("/latest/segments/999.duckdb").status_code == 404

        assert held_versions() == before
