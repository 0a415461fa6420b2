"""The ways in which other libraries are told to reach a store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakehouse.config.store_address import Address
from lakehouse.storage.stores import store_access
from lakehouse.storage.stores.store_access import engine_options, spark_options


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    for name, value in (("ACCESS_KEY_ID", "k"), ("SECRET_ACCESS_KEY", "s"), ("REGION", "eu-north-1")):
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-north-1")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    store_access.forget()
    yield monkeypatch
    store_access.forget()


def test_amazons_own_address_names_each_bucket_and_its_region() -> None:
    usual = engine_options(Address("s3", "b", "k"))
    other = engine_options(Address("s3", "b", "k", "https://s3.eu-west-1.amazonaws.com"))

    assert (usual["aws_region"], other["aws_region"]) == ("eu-north-1", "eu-west-1")
    for options in (usual, other):
        assert options["aws_virtual_hosted_style_request"] == "true" and "aws_endpoint" not in options


def test_another_server_is_reached_at_its_address_with_the_bucket_in_the_path(
    environment: pytest.MonkeyPatch,
) -> None:
    environment.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    environment.setenv("AWS_SESSION_TOKEN", "t")
    store_access.forget()

    options = engine_options(Address("s3", "b", "k"))

    assert options["aws_endpoint"] == "http://127.0.0.1:9" and options["allow_http"] == "true"
    assert options["aws_virtual_hosted_style_request"] == "false" and options["aws_session_token"] == "t"
    assert spark_options("s3")["spark.hadoop.fs.s3a.endpoint"] == "http://127.0.0.1:9"
    assert not {"k", "s", "t"} & set(spark_options("s3").values())
