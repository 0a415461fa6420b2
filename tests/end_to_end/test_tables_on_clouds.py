"""Homes on Google's and Microsoft's stores hold what one holds whose tables are in its folder.

All of it: landed files, tables, published versions, and answers on a machine that has nothing but the store. Batches
are small, so no job starts a JVM.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakehouse.declare.settings import load_settings
from lakehouse.home.integrity import damage_in, tables_of
from lakehouse.home.layout import Home
from lakehouse.home.store_path import StorePath
from lakehouse.serving.ask.ask import ask
from lakehouse.serving.sandbox.sandbox import open_published, run_sql
from tests.end_to_end.test_tables_on_store import begin, content, land, run
from tests.killing import kill_fresh
from tests.stores.clouds import ROOTS, SECRETS, cloud

pytestmark = pytest.mark.slow
WORDS = ("t", "temp", "sum", "2023-11-14T22:00:00", "2023-11-15")


@pytest.fixture(scope="module", params=list(ROOTS))
def scheme(request: pytest.FixtureRequest) -> Iterator[str]:
    """A kind of store of which a server runs."""
    with cloud(request.param):
        yield request.param


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a home holds whose tables and landed files are in folders."""
    here = begin(tmp_path_factory.mktemp("here"))
    for part in range(2):
        land(here, part, 100)
        run(here)
    return content(here)


def test_a_home_on_a_store_holds_what_one_of_a_folder_holds_though_a_driver_is_killed(
    scheme: str, tmp_path: Path, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    there = begin(tmp_path / "there", f"{ROOTS[scheme]}/lake")
    folder = Path(there.streams["t"].source.path).parent
    config = Path(str(there.config))
    landing = f"{ROOTS[scheme]}/landing/*.csv"
    config.write_text(config.read_text().replace("landing/*.csv", landing))
    told = there
    for part in range(2):
        land(told, part, 100)
        (StorePath(landing).parent / f"{part}.csv").write_new((folder / f"{part}.csv").read_bytes())
        there = load_settings(config)
        if part:
            kill_fresh("ingest.raw-appended", "jobs.ingest", "--config", str(config), "t")
        run(there)

    assert content(there) == expected
    assert not list(there.home.rglob("*.parquet")) and not list(there.home.rglob("_delta_log"))
    assert [table.parent.name for table in tables_of(Home(there.home))] == [
        "ledger",
        "quarantine",
        "raw",
        "rollup",
    ]
    assert list(damage_in(tables_of(there.layout))) == []
    words = [path.read_text("utf-8", "replace") for path in there.home.rglob("*") if path.is_file()]
    assert not [text for text in words if SECRETS[scheme] in text]

    # A machine that has nothing but the store.
    monkeypatch.setenv("TIDEMARK_SCRATCH", str(tmp_path / "scratch"))
    from lakehouse.declare.config_paths import located

    elsewhere = located(f"{ROOTS[scheme]}/lake", tmp_path)
    assert ask(elsewhere, *WORDS) == ask(there.home, *WORDS)
    with open_published(elsewhere) as reader:
        assert run_sql(reader, "SELECT sum(accepted) FROM ledger").rows == [[150]]
