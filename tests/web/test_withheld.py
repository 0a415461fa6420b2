"""An answer about a stream whose newest data are withheld says so, whichever way it is asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from lakehouse.serving.publish.publish import publish
from lakehouse.serving.publish.withheld import Withheld
from lakehouse.storage.layout import Home
from tests.serving.conftest import STREAMS
from tests.web.conftest import client_of, published

SENTENCE = (
    "newer data of pair are withheld since .* because totals.rejected_share is 1; answers are as of batch 3$"
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    folder: Path = tmp_path_factory.mktemp("withheld")
    found = published(folder, "pair")
    withheld = [Withheld(name, "totals.rejected_share is 1") for name in ("pair", "never")]
    publish(found, [STREAMS["deep"].write(folder / "deep")], withheld=withheld)
    return found


@pytest.fixture(scope="module")
def client(home: Home) -> Iterator[TestClient]:
    with client_of(home) as found:
        yield found


@pytest.mark.parametrize("asked", ["ask", "series", "arrivals"])
def test_an_answer_says_it_in_json_and_in_a_header(client: TestClient, asked: str) -> None:
    documents = [client.get(f"/latest/{asked}.json?stream={name}&points=3") for name in ("pair", "deep")]
    of_pair, of_deep = (document.json()["withheld"] for document in documents)
    csv = client.get(f"/latest/{asked}.csv?stream=pair&points=3")

    assert re.match(SENTENCE, of_pair) and of_deep is None
    assert csv.headers["Tidemark-Withheld"] == of_pair
    assert "Tidemark-Withheld" not in documents[1].headers


def test_what_changed_between_versions_says_it_of_each(client: TestClient) -> None:
    first, second = client.get("/changes.json?stream=pair").json()["rows"]

    assert first["withheld"] is None and "as of batch 3" in second["withheld"]


def test_prometheus_is_warned(client: TestClient) -> None:
    found = client.get("/prometheus/api/v1/query?query=count_over_time(pair[1h])").json()
    fresh = client.get("/prometheus/api/v1/query?query=count_over_time(deep[1h])").json()
    never = client.get("/prometheus/api/v1/query?query=count_over_time(never[1h])").json()

    assert any("newer data of pair are withheld" in warning for warning in found["warnings"])
    assert not any("withheld" in warning for warning in fresh.get("warnings", []))
    assert "stream 'never' is not published: withheld since" in never["error"]
