"""Homes on Google's and Microsoft's stores hold what one holds whose tables are in its folder.

All of it: landed files, tables, published versions, and answers on a machine that has nothing but the store. Batches
are small, so no job starts a JVM.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs import build_rollups
from lakehouse.config.config_paths import located
from lakehouse.serving.ask.ask import ask
from lakehouse.serving.sandbox.sandbox import open_published, run_sql
from lakehouse.settings import load_settings
from lakehouse.spark.jars import missing_jars
from lakehouse.spark.session import build_session, started_session
from lakehouse.storage.stores.store_path import StorePath
from lakehouse.storage.tables.table_log import read_log, read_rows
from tests.end_to_end.test_home_on_store import declared, machine
from tests.end_to_end.test_tables_on_store import begin, content, land, rebuild, require_tables_on_store, run
from tests.storage.control.postgres import running as database_running
from tests.support.killing import kill_fresh
from tests.support.stores import azure
from tests.support.stores.azure import ACCOUNT, Azurite
from tests.support.stores.clouds import ROOTS, SECRETS, cloud

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
    require_tables_on_store(there, SECRETS[scheme])

    # A machine that has nothing but the store.
    monkeypatch.setenv("TIDEMARK_SCRATCH", str(tmp_path / "scratch"))
    elsewhere = located(f"{ROOTS[scheme]}/lake", tmp_path)
    assert ask(elsewhere, *WORDS) == ask(there.home, *WORDS)
    with open_published(elsewhere) as reader:
        assert run_sql(reader, "SELECT sum(accepted) FROM ledger").rows == [[150]]


@pytest.mark.long
def test_machines_without_a_common_folder_take_turns_at_a_home(
    scheme: str, tmp_path: Path, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with database_running() as database:
        config = declared(tmp_path, f"{ROOTS[scheme]}/turns", database.url)
        for part, name in enumerate(("a", "b")):
            there = machine(config, name, monkeypatch)
            land(there, part, 100)
            run(there)
        assert content(there) == expected
        assert ask(machine(config, "a", monkeypatch).home, *WORDS) == ask(there.home, *WORDS)
    assert not list(tmp_path.rglob("_delta_log"))


def options(server: Azurite) -> str:
    """Return what tells Spark of azurite, which speaks neither https nor the protocol of hierarchical namespaces."""
    told = {
        "abfss.impl": "org.apache.hadoop.fs.azurebfs.AzureBlobFileSystem",
        "azure.account.auth.type": "SharedKey",
        f"azure.account.key.{ACCOUNT}.dfs.core.windows.net": SECRETS["abfss"],
        f"azure.account.key.{ACCOUNT}.blob.core.windows.net": SECRETS["abfss"],
        "azure.account.hns.enabled": "false",
        "azure.fns.account.service.type": "BLOB",
        "azure.ingress.service.type": "BLOB",
        "azure.abfs.endpoint": f"127.0.0.1:{server.port}",
        "azure.always.use.https": "false",
    }
    return "[spark.options]\n" + "".join(
        f'"spark.hadoop.fs.{name}" = "{value}"\n' for name, value in told.items()
    )


@pytest.mark.long
def test_spark_reads_and_writes_tables_on_microsofts_store(tmp_path: Path) -> None:
    if missing_jars(store="abfss"):
        pytest.skip("no jars for it: `python -m lakehouse.spark.jars --abfss`")
    with azure.named() as server:
        there, here = begin(tmp_path / "there", f"{ROOTS['abfss']}/lake"), begin(tmp_path / "here")
        for home in (there, here):
            land(home, 0, 200)
            run(home)
        config = Path(str(there.config))
        text = config.read_text().replace('"1h for 1y", ', "")
        config.write_text(text)
        with pytest.raises(RuntimeError, match=r"finds no credentials for abfss:// itself: name them in"):
            started_session(load_settings(config))
        config.write_text(text + options(server))
        Path(str(here.config)).write_text(Path(str(here.config)).read_text().replace('"1h for 1y", ', ""))

        rows = rebuild(load_settings(config))
        build_rollups.rebuild(here := load_settings(here.config), build_session(here), "t")
        there = load_settings(config)

        log = read_log(there.layout.rollup("t"))
        assert log is not None and log.rows == rows == len(read_rows(there.layout.rollup("t")))
        for home in (there, here):
            run(home)
        assert content(there) == content(here)


def test_what_needs_spark_says_that_it_has_no_connector_to_googles_store(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"Spark, which has no connector to tables at gs://: name one"):
        started_session(begin(tmp_path, "gs://bucket/lake"))
