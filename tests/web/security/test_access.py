from __future__ import annotations

import asyncio
import base64
import json
import logging
import socket
import stat
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from starlette.testclient import TestClient

from lakehouse.cli.app import call
from lakehouse.storage.control import place
from lakehouse.storage.control.store import FILE
from lakehouse.storage.layout import Home
from lakehouse.web.app import LONGEST_BODY, create_app
from lakehouse.web.security import audit
from lakehouse.web.security.tokens import (
    OWN_TOKEN,
    Scope,
    TokenError,
    add_token,
    own_token,
    read_tokens,
    revoke_token,
)
from tests.storage.control.conftest import server
from tests.storage.control.postgres import Postgres
from tests.web.conftest import TOKEN, client_of, own, published

__all__ = ["server"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return published(tmp_path_factory.mktemp("access"), "pair")


@pytest.fixture
def tokenless(home: Home) -> Home:
    """The home without the tokens of other tests."""
    (home.root / FILE).unlink(missing_ok=True)
    return home


@pytest.fixture
def guarded(tokenless: Home) -> Iterator[TestClient]:
    with client_of(tokenless) as found:
        del found.headers["Authorization"]
        yield found


def _with(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_without_a_token_nothing_is_answered(guarded: TestClient) -> None:
    for path in (
        "/latest/streams.json",
        "/page/",
        "/prometheus/api/v1/labels",
        "/openapi.json",
        "/events",
        "/nowhere",
    ):
        found = guarded.get(path)
        assert (found.status_code, found.json()["title"]) == (401, "No token"), path
        assert found.headers["www-authenticate"].startswith("Basic")
    assert guarded.get("/healthz").status_code == 200


def test_the_server_of_a_home_without_tokens_has_one_of_its_own(guarded: TestClient, home: Home) -> None:
    assert guarded.get("/latest/streams.json").status_code == 401
    assert guarded.get("/quarantine/pair.json", headers=_with(TOKEN)).status_code in (200, 404)
    with_it = {"Authorization": "Basic " + base64.b64encode(f":{TOKEN}".encode()).decode()}
    assert guarded.get("/latest/streams.json", headers=with_it).status_code == 200
    for wrong in ("", TOKEN[:-1], TOKEN + "t"):
        assert guarded.get("/latest/streams.json", headers=_with(wrong)).status_code == 401
    # It is the owner's, whatever tokens others get meanwhile.
    token = add_token(home, "grafana", [Scope.READ], None)
    assert guarded.get("/latest/streams.json", headers=_with(TOKEN)).status_code == 200
    assert guarded.get("/latest/streams.json", headers=_with(token)).status_code == 200


def test_without_any_token_nobody_is_let_in(tokenless: Home) -> None:
    with TestClient(create_app(tokenless), "http://127.0.0.1") as client:
        for given in ({}, _with(""), {"Cookie": "tidemark-80="}):
            assert client.get("/latest/streams.json", headers=given).status_code == 401


def test_a_browser_takes_the_token_from_the_address_and_keeps_it_from_scripts_and_sites(
    guarded: TestClient,
) -> None:
    entered = guarded.get(f"/?view=explore&token={TOKEN}&where=a%3Db&where=", follow_redirects=False)

    assert (entered.status_code, entered.headers["location"]) == (
        303,
        "/page/?view=explore&where=a%3Db&where=",
    )
    assert entered.headers["cache-control"] == "no-store"
    cookie = entered.headers["set-cookie"]
    assert cookie.startswith("tidemark-80=") and "HttpOnly" in cookie and "SameSite=strict" in cookie
    assert guarded.get("/latest/streams.json").status_code == 200
    guarded.cookies.clear()
    assert guarded.get("/latest/streams.json").status_code == 401


@pytest.mark.parametrize("path", ["/?token=x", "/page/?token=", "/latest/streams.json?token=" + TOKEN])
def test_another_token_in_the_address_opens_nothing_and_is_not_logged(
    guarded: TestClient, home: Home, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    of_home = add_token(home, "grafana", [Scope.READ], None)

    with caplog.at_level(logging.INFO, "tidemark.audit"):
        assert guarded.get(path).status_code == 401
        assert guarded.get(f"/?token={of_home}").status_code == 401

    assert of_home not in caplog.text and TOKEN not in caplog.text


def test_the_servers_own_token_is_another_at_each_start_unless_it_is_given(
    tokenless: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(OWN_TOKEN, raising=False)
    drawn = {own_token(tokenless) for _ in range(3)}
    assert len(drawn) == 3 and all(len(one) >= 43 for one in drawn)
    monkeypatch.setenv(OWN_TOKEN, "secret")
    with pytest.raises(TokenError, match=r"expected 32 to 200 letters.*found 6"):
        own_token(tokenless)
    monkeypatch.setenv(OWN_TOKEN, TOKEN)
    assert own_token(tokenless) == TOKEN
    add_token(tokenless, "grafana", [Scope.READ], None)
    assert own_token(tokenless) == ""


@pytest.mark.parametrize("name", ["Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP"])
def test_without_tokens_nothing_is_answered_that_a_proxy_passed_on(tokenless: Home, name: str) -> None:
    with client_of(tokenless) as client:
        refused = client.get("/quarantine/pair.json", headers={name: "203.0.113.9"})

    assert refused.status_code == 403
    assert "`tidemark token add NAME`" in refused.json()["detail"]


def test_a_token_is_taken_as_bearer_and_as_a_password_until_it_is_revoked(
    guarded: TestClient, home: Home
) -> None:
    token = add_token(home, "grafana", [Scope.READ], None)
    basic = base64.b64encode(f"anybody:{token}".encode()).decode()

    assert guarded.get("/latest/streams.json", headers=_with(token)).status_code == 200
    assert guarded.get("/latest/streams.json", headers={"Authorization": f"Basic {basic}"}).status_code == 200
    for wrong in ("Bearer x", f"Bearer {token}x", "Basic x", "Basic eA==", f"Digest {token}", token):
        assert guarded.get("/latest/streams.json", headers={"Authorization": wrong}).status_code == 401
    revoke_token(home, "grafana")
    assert guarded.get("/latest/streams.json", headers=_with(token)).status_code == 401


@pytest.mark.parametrize(
    ("path", "scope"),
    [
        ("/latest/streams.json", Scope.READ),
        ("/latest/sql.json?q=SELECT 1", Scope.SQL),
        ("/latest/tidemark.duckdb", Scope.FILE),
        ("/latest/attach.sql", Scope.FILE),
        ("/quarantine/pair/facets.json", Scope.QUARANTINE),
        ("/quarantine/pair.json", Scope.QUARANTINE),
    ],
)
def test_each_scope_opens_its_own_door(guarded: TestClient, home: Home, path: str, scope: Scope) -> None:
    with_it = add_token(home, "with", [scope], None)
    without = add_token(home, "without", [one for one in Scope if one is not scope], None)

    assert guarded.get(path, headers=_with(without)).status_code == 403
    assert guarded.get(path, headers=_with(with_it)).status_code in (200, 404)


def test_a_token_for_one_stream_sees_no_other(guarded: TestClient, home: Home) -> None:
    mine = _with(add_token(home, "mine", [Scope.READ, Scope.QUARANTINE], ["pair"]))
    other = _with(add_token(home, "other", [Scope.READ, Scope.QUARANTINE], ["elsewhere"]))
    asked = ("/latest/ask.json?stream=pair", "/latest/series.json?stream=pair", "/latest/ledger.json?stream=pair",
             "/latest/streams/pair/keys/device.json", "/quarantine/pair/facets.json", "/changes.json?stream=pair",
             "/prometheus/api/v1/query?query=sum(count_over_time(pair[1d]))")  # fmt: skip
    for path in asked:
        assert guarded.get(path, headers=mine).status_code in (200, 404), path
        assert guarded.get(path, headers=other).status_code == 403, path
    for path in ("/latest/queries.json", "/events", "/quality.json", "/prometheus/api/v1/query?query=ALERTS"):
        assert guarded.get(path, headers=mine).status_code == 403, path
    listed = {"/latest/streams.json": "rows", "/status.json": "streams", "/versions.json": "rows"}
    for path, part in listed.items():
        assert [row["stream"] for row in guarded.get(path, headers=mine).json()[part]] == ["pair"]
        assert guarded.get(path, headers=other).json()[part] == []
    assert guarded.get("/prometheus/api/v1/label/__name__/values", headers=other).json()["data"] == []


def test_a_known_validator_is_no_way_round_a_token(guarded: TestClient, home: Home) -> None:
    mine = add_token(home, "mine", [Scope.READ], ["pair"])
    other = add_token(home, "other", [Scope.READ], ["elsewhere"])
    etag = guarded.get("/latest/ask.json?stream=pair", headers=_with(mine)).headers["etag"]

    found = guarded.get("/latest/ask.json?stream=pair", headers=_with(other) | {"If-None-Match": etag})

    assert found.status_code == 403


def test_the_home_keeps_no_token_and_shows_its_hashes_to_the_owner_alone(home: Home) -> None:
    (home.root / FILE).unlink(missing_ok=True)
    token = add_token(home, "kept", [Scope.READ], None)

    assert token.encode() not in (home.root / FILE).read_bytes()
    assert stat.S_IMODE((home.root / FILE).stat().st_mode) == 0o600
    assert [one.name for one in read_tokens(home)] == ["kept"]
    with pytest.raises(TokenError, match="already"):
        add_token(home, "kept", [Scope.READ], None)
    with pytest.raises(TokenError, match="every stream"):
        add_token(home, "wide", [Scope.SQL], ["pair"])
    with pytest.raises(TokenError, match="there are: kept"):
        revoke_token(home, "gone")


def test_a_token_revoked_beside_another_made_stays_revoked(tmp_path: Path) -> None:
    home = Home(tmp_path)
    add_token(home, "old", [Scope.READ], None)
    add_token(home, "one", [Scope.READ], ["pair"])

    def made(number: int) -> None:
        add_token(home, f"new{number}", [Scope.READ], None)
        if number == 3:
            revoke_token(home, "old")

    threads = [threading.Thread(target=made, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(one.name for one in read_tokens(home)) == [*(f"new{number}" for number in range(6)), "one"]


@pytest.mark.slow
def test_while_the_database_of_tokens_is_away_nobody_is_let_in_and_nobody_waits(
    guarded: TestClient, home: Home, server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(place.VARIABLE, server.url)
    try:
        token = add_token(replace(home, control=server.url), "shared", [Scope.READ], None)
        assert guarded.get("/latest/streams.json", headers=_with(token)).status_code == 200
        server.kill()
        away = guarded.get("/latest/streams.json", headers=_with(token))
        assert (away.status_code, away.json()["title"]) == (503, "No tokens") and "127" not in away.text
        server.start()
        assert guarded.get("/latest/streams.json", headers=_with(token)).status_code == 200
        revoke_token(home, "shared")
        assert guarded.get("/latest/streams.json", headers=_with(token)).status_code == 401
    finally:
        (home.root / place.NAME).unlink()


def test_without_tokens_only_names_of_the_loopback_are_answered(tokenless: Home) -> None:
    with client_of(tokenless) as client:
        hosts = {"localhost:8417": 200, "127.0.0.1": 200, "[::1]:80": 200, "evil.example": 421, "": 421}
        for host, status in hosts.items():
            assert client.get("/latest/streams.json", headers={"Host": host}).status_code == status, host


def test_a_page_of_another_site_has_the_server_do_no_work(tokenless: Home) -> None:
    other = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    port = {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"}
    frame = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}
    link = frame | {"Sec-Fetch-Dest": "document"}
    page = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors", "Origin": "http://127.0.0.1"}
    origins = ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "http://127.0.0.1:1"})

    with client_of(tokenless) as client:
        asked = [
            client.get("/latest/streams.json", headers=given).status_code
            for given in (other, port, frame, link, page)
        ]
        sent = [
            client.post("/prometheus/api/v1/query", data={"query": "1"}, headers=given).status_code
            for given in (link, port, *origins, page)
        ]

    assert (asked, sent) == ([403, 403, 403, 200, 200], [403] * 5 + [200])


def test_a_form_of_another_site_runs_no_statement_under_the_password_that_a_browser_adds(
    guarded: TestClient, home: Home
) -> None:
    token = add_token(home, "analyst", [Scope.READ, Scope.SQL], None)
    basic = base64.b64encode(f"anybody:{token}".encode()).decode()
    of_form = {"Authorization": f"Basic {basic}", "Content-Type": "text/plain", "Sec-Fetch-Mode": "navigate"}

    for by in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://evil.example"}):
        assert guarded.post("/latest/sql.json", content="SELECT 1", headers=of_form | by).status_code == 403
    alone = {"Sec-Fetch-Site": "none"}
    assert guarded.post("/latest/sql.json", content="SELECT 1", headers=of_form | alone).status_code == 200


@pytest.mark.slow
def test_each_question_leaves_a_line_without_the_token(
    guarded: TestClient, home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    token = add_token(home, "audited", [Scope.READ], None)

    with caplog.at_level(logging.INFO, "tidemark.audit"):
        guarded.get("/latest/ask.json?stream=pair&measure=temp", headers=_with(token))

    (line,) = [
        json.loads(record.getMessage()) for record in caplog.records if record.name == "tidemark.audit"
    ]
    assert line["token"] == "audited" and line["status"] == 200
    assert line["asked"] == {"stream": "pair", "measure": "temp"} and line["parameters"] == 2
    assert token not in caplog.text


def test_every_answer_has_the_headers_that_keep_a_browser_from_other_sites(tokenless: Home) -> None:
    with client_of(tokenless) as client:
        for path in ("/page/", "/latest/streams.json", "/nowhere"):
            headers = client.get(path).headers
            assert "default-src 'none'" in headers["content-security-policy"]
            assert "script-src 'self';" in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"


def test_the_command_makes_lists_and_revokes_tokens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*words: str) -> str:
        assert call(["--home", str(tmp_path), "token", *words]) == 0
        return capsys.readouterr().out

    token = run("add", "a", "--scope", "read", "--scope", "sql").strip()
    assert token.startswith("tm_") and len(token) > 40
    assert json.loads(run("list", "--json"))[0]["scopes"] == ["read", "sql"]
    assert "revoked a" in run("revoke", "a")
    assert json.loads(run("list", "--json")) == []
    assert call(["--home", str(tmp_path), "token", "revoke", "a"]) == 2
    assert call(["--home", str(tmp_path), "token", "add"]) == 2
    assert call(["--home", str(tmp_path), "web", "--bind", "0.0.0.0:0"]) == 2
    assert "make a token first" in capsys.readouterr().err


def test_an_address_where_another_server_is_is_refused_and_never_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        assert call(["--home", str(tmp_path), "web", "--bind", taken]) == 2

    said = capsys.readouterr()
    assert f"--bind: {taken} cannot be answered at: another process answers there" in said.err
    assert said.out == ""


def test_what_a_body_asks_is_in_the_audit_too(
    guarded: TestClient, home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    token = _with(add_token(home, "poster", [Scope.READ, Scope.SQL], None))

    with caplog.at_level(logging.INFO, logger="tidemark.audit"):
        guarded.post(
            "/latest/sql.json?limit=5", content="SELECT 42", headers=token | {"Content-Type": "text/plain"}
        )
        guarded.post("/prometheus/api/v1/query", data={"query": "1+1", "time": "4"}, headers=token)

    lines = [record.getMessage() for record in caplog.records if record.name == "tidemark.audit"]
    asked = [json.loads(line)["asked"] for line in lines]
    assert asked == [{"limit": "5", "q": "SELECT 42"}, {"query": "1+1", "time": "4"}]


@pytest.mark.parametrize("path", ["/latest/sql.json", "/prometheus/api/v1/query"])
def test_a_body_without_end_is_refused_before_it_is_read(tokenless: Home, path: str) -> None:
    taken = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal taken
        while taken < 100_000_000:
            taken += 100_000
            yield b"a" * 100_000

    async def posted() -> httpx.Response:
        transport = httpx.ASGITransport(create_app(tokenless, own()))
        headers = _with(TOKEN) | {"Content-Type": "text/plain"}
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.post(path, content=endless(), headers=headers)

    found = asyncio.run(posted())

    assert found.status_code == 413
    assert taken <= LONGEST_BODY + 200_000


def test_what_a_line_has_no_room_for_is_whole_in_a_file_under_its_digest(
    guarded: TestClient, home: Home, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = _with(add_token(home, "hiding", [Scope.READ, Scope.SQL], None))
    statement = "SELECT 42 -- " + "x" * 3_000 + " behind dummies"
    asked = [*((f"a{number}", "") for number in range(30)), ("q", statement)]
    file = home.service / "asked.jsonl"
    # Other tests ask the same home.
    file.unlink(missing_ok=True)

    with caplog.at_level(logging.INFO, "tidemark.audit"):
        assert guarded.get("/latest/sql.json", params=asked, headers=token).status_code == 200
        assert guarded.get("/latest/sql.json", params=asked).status_code == 401

    first, second = [json.loads(record.getMessage()) for record in caplog.records]
    (line,) = map(json.loads, file.read_text().splitlines())
    assert line == {"digest": first["digest"], "asked": [list(one) for one in asked]}
    assert (first["parameters"], second["digest"]) == (31, first["digest"])
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    monkeypatch.setattr(audit, "FILE_BYTES", 10_000)
    for _ in range(10):
        guarded.get("/latest/sql.json", params=asked, headers=token)
    assert sum(path.stat().st_size for path in home.service.glob("asked.*")) < 30_000
