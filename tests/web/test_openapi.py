"""Whatever is sent to an address that the description names, the server does not fail."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings

pytestmark = pytest.mark.slow
# Events never end; files of a version are in test_file.py.
APART = ("/events", "duckdb")


def test_nothing_that_fits_the_description_is_a_failure_of_the_server(
    address: str, request: pytest.FixtureRequest
) -> None:
    description = schemathesis.openapi.from_url(f"{address}/openapi.json")
    found: list[Any] = list(description.get_all_operations())
    operations = [one.ok() for one in found]
    tried = [one for one in operations if not any(part in one.path for part in APART)]

    assert len(tried) > 20
    cases = 3 if request.config.getoption("--few-examples") else 12
    for operation in tried:
        _try(operation, cases)


def _try(operation: Any, cases: int) -> None:
    @settings(max_examples=cases, deadline=None, suppress_health_check=list(HealthCheck))
    @given(operation.as_strategy())
    def answers(case: Any) -> None:
        found = case.call()
        # 503 and 504 are the server's ceilings.
        assert found.status_code < 500 or found.status_code in (503, 504), (
            case.as_curl_command(),
            found.text,
        )

    answers()


def test_every_parameter_and_address_is_described(address: str) -> None:
    paths = httpx.get(f"{address}/openapi.json").json()["paths"]

    silent = [
        (path, parameter["name"])
        for path, methods in paths.items()
        for operation in methods.values()
        for parameter in operation.get("parameters", ())
        if parameter["in"] == "query" and not parameter.get("description")
    ]
    unsaid = [
        path for path, methods in paths.items() if not all(one.get("summary") for one in methods.values())
    ]
    assert (silent, unsaid) == ([], [])
