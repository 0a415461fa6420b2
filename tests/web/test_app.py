from __future__ import annotations

import csv
import io
import re
import select
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import duckdb
import httpx
import pandas
import pytest
from starlette.testclient import TestClient

from lakehouse.serving.publish.publish import publish
from lakehouse.storage.layout import Home
from lakehouse.web.app import WebOptions
from lakehouse.web.parameters import Limits
from tests.serving.conftest import STREAMS, Lakehouse
from tests.web.conftest import TOKEN, client_of, published, served, wait_for

ASK = {"stream": "deep", "measure": "temp", "agg": "sum", "from": "1970-01-01", "to": "1970-01-02"}


def test_a_version_may_be_kept_for_ever_and_the_latest_says_which_it_is(client: TestClient) -> None:
    of_version, latest = client.get("/v/1/ask.json", params=ASK), client.get("/latest/ask.json", params=ASK)

    assert "immutable" in of_version.headers["cache-control"]
    assert latest.headers["cache-control"] == "private, no-cache"
    assert latest.headers["content-location"] == f"/v/1/ask.json?{latest.url.query.decode()}"
    assert of_version.headers["etag"] == latest.headers["etag"]
    assert of_version.json()["rows"] == latest.json()["rows"]


def test_what_is_known_already_is_not_sent_again(client: TestClient) -> None:
    etag = client.get("/latest/ask.json", params=ASK).headers["etag"]

    again = client.get("/latest/ask.json", params=ASK, headers={"If-None-Match": f'"other", {etag}'})
    other = client.get("/latest/ask.json", params=ASK | {"agg": "max"}, headers={"If-None-Match": etag})
    as_csv = client.get("/latest/ask.csv", params=ASK, headers={"If-None-Match": etag})

    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == etag
    assert other.status_code == as_csv.status_code == 200


def test_the_same_question_in_other_words_has_the_same_validator(client: TestClient) -> None:
    words = ASK | {"from": "0us", "to": "86400000000us"}

    etags = {client.get("/latest/ask.json", params=given).headers["etag"] for given in (ASK, words)}

    assert len(etags) == 1


def test_a_version_that_is_gone_names_the_nearest(client: TestClient) -> None:
    found = client.get("/v/77/streams.json")

    assert (found.status_code, found.json()["nearest"]) == (410, 1)
    assert found.headers["content-type"] == "application/problem+json"


def test_before_the_first_publish_everything_says_so(tmp_path: Path) -> None:
    with client_of(Home(tmp_path)) as client:
        assert client.get("/latest/streams.json").status_code == 503
        assert client.get("/status.json").json()["published"] is None
        assert client.get("/page/").status_code == 200


def test_the_start_leads_to_the_page_with_what_was_asked(client: TestClient) -> None:
    found = client.get("/?view=explore&stream=deep", follow_redirects=False)

    assert (found.status_code, found.headers["location"]) == (302, "/page/?view=explore&stream=deep")


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/",
            "/healthz",
            "/page/",
            "/page/style.css",
            "/status.json",
            "/latest/streams.json",
            "/versions.json",
        ),
        *("/latest/ask.json?stream=deep", "/v/1/series.csv?stream=deep&points=3", "/latest/file.duckdb"),
        *(
            "/prometheus/api/v1/labels",
            "/events",
            "/nowhere",
            "/latest/ask.json?stream=depp",
            "/openapi.json",
        ),
    ],
)
def test_head_has_the_headers_of_get_and_no_body(client: TestClient, path: str) -> None:
    found = client.head(path, follow_redirects=False)

    assert found.content == b""
    if path == "/events":
        assert (found.status_code, found.headers["content-type"][:17]) == (200, "text/event-stream")
        return
    got = client.get(path, follow_redirects=False)
    assert found.status_code == got.status_code
    assert found.headers["content-type" if got.content else "location"]

    def lengths() -> list[str | None]:
        both = (ask(path, follow_redirects=False) for ask in (client.head, client.get))
        return [each.headers.get("content-length") for each in both]

    # An age that an answer tells may have a digit more by the second time.
    wait_for(lambda: len({*lengths()}) == 1)


def test_a_value_that_no_row_has_is_named_with_near_ones(client: TestClient) -> None:
    asked = {"stream": "deep", "measure": "temp", "where": "device=c"}

    found, there = (
        client.get("/latest/ask.json", params=asked | more).json() for more in ({}, {"where": "device=a"})
    )

    assert found["notes"] == ["no row of deep has device 'c'; there are: None, a, b, it's, {odd}=1"]
    assert not any("no row" in note for note in there.get("notes", []))


def test_rows_without_a_value_of_the_measure_are_counted_beside_the_answer(client: TestClient) -> None:
    rows = STREAMS["deep"].rows
    missing = sum(row.temp is None for row in rows)
    asked = {"stream": "deep", "measure": "temp", "agg": "avg"}

    found, by_key, cut, counted = (
        client.get("/latest/ask.json", params=asked | more).json()
        for more in ({}, {"by": "device"}, {"by": "device", "limit": 1}, {"measure": "*", "agg": "count"})
    )

    assert found["missing"] == by_key["missing"] == missing > 0
    assert found["notes"] == by_key["notes"] == [f"of {len(rows):,} rows {missing:,} have no value"]
    assert (cut["truncated"], cut["missing"]) == (True, None)
    assert counted["missing"] == 0
    assert "notes" not in counted


@pytest.mark.parametrize(("limit", "is_cut"), [(1, True), (4, False), (5, False)])
def test_series_say_if_there_are_more_keys_than_asked_for(
    client: TestClient, limit: int, is_cut: bool
) -> None:
    asked = {"stream": "deep", "measure": "temp", "by": "device", "points": 2, "limit": limit}

    assert client.get("/latest/series.json", params=asked).json()["truncated"] is is_cut


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/latest/ask.json?stream=depp", 400, "did you mean 'deep'?"),
        ("/latest/ask.json?stream=deep&measure=tmp", 400, "temp"),
        ("/latest/ask.json?stream=deep&measure=temp&where=colour=red", 400, "colour"),
        ("/latest/ask.json?stream=deep&where=device", 400, "KEY=VALUE"),
        ("/latest/ask.json?stream=deep&from=yesterday", 400, "expected a time"),
        ("/latest/ask.json?stream=deep&from=999999999999999999us", 400, "from the year 1 to 9999"),
        ("/latest/ask.json?stream=deep&agg=median", 422, "agg"),
        ("/latest/ask.json", 422, "stream"),
        ("/latest/ask.xml?stream=deep", 422, "format"),
        ("/latest/series.json?stream=deep&points=100000", 422, "points"),
        ("/latest/ask.json?stream=%00", 400, "NUL"),
        ("/latest/sql.json?q=SELECT%201;%20SELECT%202", 400, "found 2 statements"),
        ("/latest/sql.json?q=SELECT%20*%20FROM%20read_csv('/etc/passwd')", 400, "not allowed"),
        ("/latest/queries/none/pairs.json", 404, "no published query 'none'"),
        ("/latest/streams/deep/keys/colour.json", 404, "device, zone"),
        ("/changes.json?stream=deep&by=device", 400, "one answer at a time"),
        ("/quarantine/...json", 404, "has such a name"),
        ("/quarantine/%2e%2e/facets.json", 404, "has such a name"),
        ("/quarantine/none.json", 404, "there is no table 'none'"),
        ("/nowhere", 404, "Not Found"),
    ],
)
def test_a_wrong_question_is_told_what_was_expected(
    client: TestClient, path: str, status: int, said: str
) -> None:
    found = client.get(path)

    assert found.status_code == status, found.text
    assert said in found.json()["detail"]
    assert found.headers["content-type"] == "application/problem+json"
    assert "/home" not in found.text and "Traceback" not in found.text


def test_rows_are_limited_and_the_rest_is_said(lakehouse: Lakehouse) -> None:
    with client_of(lakehouse.home, WebOptions(Limits(rows=2))) as client:
        by = client.get("/latest/ask.json", params={"stream": "deep", "by": ["device", "zone"]}).json()
        sql = client.get("/latest/sql.json", params={"q": "FROM range(5)"}).json()

    assert (len(by["rows"]), by["truncated"]) == (2, True)
    assert (len(sql["rows"]), sql["truncated"]) == (2, True)


@pytest.mark.slow
def test_a_question_that_takes_too_long_is_stopped(lakehouse: Lakehouse) -> None:
    endless = "SELECT sum(sin(a.range * b.range)) FROM range(1000000) a, range(1000000) b"
    with client_of(lakehouse.home, WebOptions(Limits(timeout_s=2))) as client:
        began = time.monotonic()
        found = client.get("/latest/sql.json", params={"q": endless})

        assert found.status_code in (400, 504)
        assert time.monotonic() - began < 60
        assert client.get("/latest/ask.json", params=ASK).status_code == 200


@pytest.mark.slow
def test_a_client_that_leaves_ends_its_work_and_more_than_can_wait_are_refused(lakehouse: Lakehouse) -> None:
    endless = {"q": "SELECT sum(sin(a.range * b.range)) FROM range(1000000) a, range(1000000) b"}
    options = WebOptions(Limits(timeout_s=60), at_once=1, waiting=1)
    with served(lakehouse.home, options) as address, ExitStack() as clients:
        url = httpx.URL(f"{address}/latest/sql.json", params=endless)
        leaving = [
            clients.enter_context(socket.create_connection((url.host, url.port or 0))) for _ in range(3)
        ]
        for one in leaving:
            line = b"GET %s HTTP/1.1\r\nHost: %s\r\n" % (url.raw_path, url.netloc)
            one.sendall(line + f"Authorization: Bearer {TOKEN}\r\n\r\n".encode())
        # Whichever comes last finds both places taken, and is told at once.
        assert select.select(leaving, [], [], 30)[0]
        refused = httpx.get(f"{address}/latest/ask.json", params=ASK)
        clients.close()
        # The server hears of it a moment later; their statements would run for minutes.
        wait_for(lambda: httpx.get(f"{address}/latest/ask.json", params=ASK, timeout=20).status_code == 200)

    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")


def test_a_formula_in_a_text_is_no_formula_in_csv(client: TestClient) -> None:
    found = client.get(
        "/latest/sql.csv", params={"q": "SELECT '=1+1' AS \"@a\", -1 AS b, '-1' AS c, -0.5 AS d"}
    )

    assert found.text == "'@a,b,c,d\n'=1+1,-1,'-1,-0.5\n"


HOSTILE = ("a\r=1+1", "\n=1+1", " =1+1", "x;=1+1", "\uff1d1+1", 'say "=1"', "a\tb", "a,b", "plain", "")


@pytest.mark.parametrize("reader", ["csv", "pandas", "duckdb"])
def test_every_reader_of_csv_finds_each_text_in_a_cell_of_its_own(
    client: TestClient, reader: str, tmp_path: Path
) -> None:
    texts = ", ".join(f"({number}, '{text}')" for number, text in enumerate(HOSTILE))
    answer = client.get("/latest/sql.csv", params={"q": f"SELECT * FROM (VALUES {texts}) t(n, v) ORDER BY n"})
    file = tmp_path / "answer.csv"
    file.write_bytes(answer.content)

    if reader == "csv":
        rows = [row[1] for row in csv.reader(io.StringIO(answer.text, newline=""))][1:]
    elif reader == "pandas":
        rows = pandas.read_csv(file, keep_default_na=False)["v"].to_list()
    else:
        found = duckdb.execute(
            "SELECT v FROM read_csv(?, header = true, delim = ',')", [str(file)]
        ).fetchall()
        rows = [row[0] or "" for row in found]

    assert [row.removeprefix("'") for row in rows] == list(HOSTILE)
    assert not [row for row in rows if row.lstrip()[:1] in tuple("=+-@\uff1d")]
    # Where a semicolon separates, too, no cell begins with a formula.
    assert not re.search(r'^[^"]*;\s*=', answer.text, re.MULTILINE)


def test_doubles_that_json_does_not_know_are_null_and_arrow_has_them(client: TestClient) -> None:
    import pyarrow as pa

    asked = {
        "q": "SELECT 'inf'::DOUBLE AS a, 1 AS a, TIMESTAMP '2026-01-01' AS t, '\\xff'::BLOB AS b, [1, NULL] l"
    }
    as_json = client.get("/latest/sql.json", params=asked).json()["rows"]
    as_arrow = pa.ipc.open_stream(client.get("/latest/sql.arrow", params=asked).content).read_all()

    assert as_json == [{"a": "inf", "a_2": 1, "t": "2026-01-01T00:00:00", "b": "ff", "l": [1, None]}]
    (row,) = as_arrow.to_pylist()
    assert (row["a"], row["b"], row["l"], str(row["t"])) == (
        float("inf"),
        b"\xff",
        [1, None],
        "2026-01-01 00:00:00",
    )


def test_pages_of_keys_follow_each_other(client: TestClient) -> None:
    whole = [row["value"] for row in client.get("/latest/streams/deep/keys/device.json").json()["rows"]]
    found, after = [], None
    while True:
        page = client.get(
            "/v/1/streams/deep/keys/device.json", params={"limit": 1, **({"after": after} if after else {})}
        )
        found += [row["value"] for row in page.json()["rows"]]
        if not (after := page.json()["next"]):
            break

    assert found == whole


@pytest.fixture(scope="module")
def two_versions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    folder = tmp_path_factory.mktemp("two")
    home = published(folder, "pair")
    publish(home, [STREAMS["pair"].write(folder / "again"), STREAMS["flat"].write(folder / "flat")])
    yield home


@pytest.mark.slow
def test_a_new_version_is_answered_at_once_and_the_old_one_still_is(two_versions: Home) -> None:
    with client_of(two_versions) as client:
        assert client.get("/latest/streams.json").json()["version"] == 2
        assert [row["stream"] for row in client.get("/v/1/streams.json").json()["rows"]] == ["pair"]
        assert [row["stream"] for row in client.get("/v/2/streams.json").json()["rows"]] == ["flat", "pair"]


def test_how_an_answer_changed_is_told_version_by_version(two_versions: Home) -> None:
    with client_of(two_versions) as client:
        rows = client.get("/changes.json", params={"stream": "pair", "measure": "temp"}).json()["rows"]
        kept = client.get("/versions.json").json()["rows"]

    assert [row["version"] for row in rows] == [1, 2]
    assert rows[0]["value"] == rows[1]["value"]
    assert (rows[0]["received"], rows[1]["received"]) == (None, 0)
    assert {(row["version"], row["stream"]) for row in kept} == {(1, "pair"), (2, "flat"), (2, "pair")}


def test_versions_from_before_a_stream_was_there_are_left_out(two_versions: Home) -> None:
    with client_of(two_versions) as client:
        found = client.get("/changes.json", params={"stream": "flat", "measure": "price"})
        none = client.get("/changes.json", params={"stream": "flat", "measure": "prize"})

    assert [(row["version"], row["received"]) for row in found.json()["rows"]] == [(2, None)]
    assert (none.status_code, "did you mean 'price'" in none.json()["detail"]) == (400, True)
