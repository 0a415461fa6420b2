"""Pages of checks of a home whose tables are on a store: what each machine judged is on the pages of all."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehouse.settings import Settings, load_settings
from lakehouse.storage.layout import Home
from quality.checkpoint import judge, report_page
from tests.quality.conftest import CONFIG
from tests.quality.test_checkpoint import _raw, _totals
from tests.support.stores.s3 import BUCKET, S3, named
from tests.web.conftest import client_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def store() -> Iterator[S3]:
    with named() as server:
        yield server


def machine(folder: Path, prefix: str) -> Settings:
    """Return a home in a folder of its own, whose tables are on the store that all share."""
    folder.mkdir()
    told = f'[quality]\nkeep_results = 2\n[tables]\npath = "s3://{BUCKET}/{prefix}"\n'
    (folder / "tidemark.toml").write_text(told + CONFIG)
    return load_settings(folder / "tidemark.toml")


def keys(store: S3, prefix: str) -> list[str]:
    """Return what is on the store, times left out."""
    found = store.client.list_objects_v2(Bucket=BUCKET, Prefix=f"{prefix}/reports/")["Contents"]
    return sorted(re.sub(r"/\d{8}T[^/]+/", "/TIME/", each["Key"].partition("reports/")[2]) for each in found)


def test_pages_have_what_every_machine_judged_and_no_more_than_is_kept(store: S3, tmp_path: Path) -> None:
    a, b = (machine(tmp_path / name, "lake") for name in "ab")
    judge(a, "telemetry", [_totals()])
    judge(b, "other", [_totals(raw_gap=7), _raw(0)])
    for home in (a, b, a):
        judge(home, "telemetry", [_totals()])

    assert str(report_page(b.layout)) == f"s3://{BUCKET}/lake/reports/site/index.html"
    links = re.findall(r'href="(validations/[^"]+)"', report_page(b.layout).read_text())
    assert sorted(link.rpartition("/")[2] for link in links) == [
        "other-raw.html",
        "other-totals.html",
        "telemetry-totals.html",
        "telemetry-totals.html",
    ]
    for kind, end in (("site", "html"), ("gx/uncommitted", "json")):
        of_kind = [name for name in keys(store, "lake") if name.startswith(f"{kind}/validations/")]
        assert of_kind == sorted(
            f"{kind}/validations/{table}/__none__/TIME/{stream}-{table}.{end}"
            for stream, table in (
                ("other", "raw"),
                ("other", "totals"),
                ("telemetry", "totals"),
                ("telemetry", "totals"),
            )
        )
    # A machine that has nothing but the store shows them.
    (elsewhere := Home(tmp_path / "elsewhere")).root.mkdir()
    (elsewhere.root / "tables.json").write_text(f'{{"path": "s3://{BUCKET}/lake"}}')
    with client_of(elsewhere) as client:
        index = client.get("/reports/")
        pages = {link: client.get(f"/reports/{link}") for link in links}
        beside = [
            client.get(f"/reports/{path}").status_code
            for path in ("../gx/great_expectations.yml", "%2e%2e/%2e%2e/a.html", "/etc/a.html", "none.html")
        ]
    assert all(link in index.text for link in links) and index.headers["content-type"].startswith("text/html")
    assert {page.status_code for page in pages.values()} == {200} and beside == [404] * 4
    assert sum("rows that the ledger calls accepted" in page.text for page in pages.values()) == 3


def test_a_check_writes_what_is_new_and_the_index(store: S3, tmp_path: Path) -> None:
    home = machine(tmp_path / "home", "few")
    for _ in range(2):
        judge(home, "telemetry", [_totals()])

    def before() -> dict[str, object]:
        found = store.client.list_objects_v2(Bucket=BUCKET, Prefix="few/reports/")["Contents"]
        return {each["Key"]: (each["LastModified"], each["ETag"]) for each in found}

    known = before()
    judge(home, "telemetry", [_totals()])
    asked = [name for name, when in before().items() if known.get(name) != when]

    assert sorted(name.rpartition(".")[2] for name in asked) == ["html", "html", "json"]
    assert len(before()) == len(known)
