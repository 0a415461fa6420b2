"""Jobs that write one table: of another kind they are waited for, of the same kind a second is refused at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from jobs import (
    build_rollups,
    ingest,
    maintain,
    maintain_queries,
    merge_raw,
    publish,
    repair_late,
    run_queries,
)
from lakehouse.settings import Settings
from lakehouse.spark.session import build_session
from lakehouse.storage.control.lease import LeaseHeld, files_of, is_held, lease, turn
from lakehouse.storage.layout import Home
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.rollup_table import read_marker
from tests.support.standing_airflow import joined_home, land, published, run_undisturbed

pytestmark = pytest.mark.slow
# A job, the table that it has a turn of, its turn, and what it is for.
JOBS: dict[str, tuple[Callable[..., object], Callable[[Home], Location], str, str]] = {
    "ingest": (ingest.run, lambda home: home.raw("alpha"), "ingest", "alpha"),
    "build_rollups": (build_rollups.run, lambda home: home.rollup("alpha"), "build", "alpha"),
    "maintain": (maintain.run, lambda home: home.raw("alpha"), "maintain", "alpha"),
    "merge_raw": (merge_raw.run, lambda home: files_of(home.raw("alpha")), "merge", "alpha"),
    "run_queries": (run_queries.run, lambda home: home.queries("near"), "run", "near"),
    "repair_late": (repair_late.run, lambda home: home.repairs("near"), "repair", "near"),
    "maintain_queries": (maintain_queries.run, lambda home: home.repairs("near"), "maintain", "near"),
}


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("home")
    settings = joined_home(folder)
    run_undisturbed(settings, 1)
    return settings


@pytest.mark.parametrize("job", JOBS)
def test_a_job_waits_for_one_of_another_kind_and_is_refused_at_once_beside_its_own(
    settings: Settings, job: str
) -> None:
    run, table_of, own, name = JOBS[job]
    layout, session = settings.layout, build_session(settings)
    table = table_of(layout)

    with turn(layout, table, own):
        began = time.monotonic()
        with pytest.raises(LeaseHeld, match="another process writes this table now"):
            run(settings, session, name)
        assert time.monotonic() - began < 5
    with ThreadPoolExecutor(1) as pool:
        with lease(layout, table):
            waiting = pool.submit(run, settings, session, name)
            while not is_held(layout, table.parent / f"{table.name}.{own}"):
                time.sleep(0.05)
            time.sleep(0.5)
            assert not waiting.done()
        waiting.result(60)


def test_a_publish_waits_for_a_build_and_a_build_for_a_publish(settings: Settings) -> None:
    layout, session = settings.layout, build_session(settings)
    for stream in settings.streams:
        land(settings, stream, 1)
        ingest.run(settings, session, stream)
    with ThreadPoolExecutor(3) as pool:
        with ExitStack() as held:
            held.enter_context(lease(layout, layout.rollup("alpha")))
            publishing = pool.submit(publish.run, settings, session, unchecked=True)
            while not is_held(layout, layout.serving):
                time.sleep(0.05)
            building = [pool.submit(build_rollups.run, settings, session, name) for name in settings.streams]
            time.sleep(0.5)
            assert not publishing.done()
        assert publishing.result(60)["withheld"] == {}
        assert [each.result(60)["batches"] for each in building] == [1, 1]
    assert read_marker(layout.rollup("alpha")).batch == 2
    assert publish.run(settings, session, unchecked=True)["withheld"] == {}
    assert published(settings, "alpha") == published(settings, "delta") == 120


def test_no_two_jobs_wait_for_each_other(settings: Settings) -> None:
    """Start every job at once, again and again: all end, since leases are waited for in one order."""
    session, stopped = build_session(settings), threading.Event()
    ends: dict[str, list[str]] = {name: [] for name in (*JOBS, "publish")}

    def repeat(job: str) -> None:
        while not stopped.is_set():
            try:
                if job == "publish":
                    publish.run(settings, session, unchecked=True)
                else:
                    run, _, _, name = JOBS[job]
                    run(settings, session, name)
                ends[job].append("ok")
            except LeaseHeld as held:
                ends[job].append(str(held))

    with ThreadPoolExecutor(len(ends)) as pool:
        running = [pool.submit(repeat, job) for job in ends]
        time.sleep(10)
        stopped.set()
        for each in running:
            each.result(100)
    assert {job: set(how) for job, how in ends.items()} == {job: {"ok"} for job in ends}
