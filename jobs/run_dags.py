"""Run every DAG once over the landed files, in this process, with nothing to install and at most one Spark session.

The order is fixed here, not by assets: ``dag.test()`` runs one DAG, and an asset event starts nothing here. Airflow's
own messages go to ``<home>/airflow/logs/run.log``. A stream or query that fails fails alone, as on a schedule: tables
hold finished batches only, and the DAGs after it go on for the others. If no stream could be ingested, or no rollup
built, nothing is new and the run stops. Safe to run again.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO
from unittest.mock import patch

from jobs.running.chosen import ALL_QUERIES
from jobs.running.outcome import ALL_STREAMS, Outcome, counts_of, reporting
from jobs.running.scheduled import configured_as
from lakehouse.config.airflow.homes import airflow_home
from lakehouse.config.config_paths import config_file
from lakehouse.service.ending import interrupting_jobs
from lakehouse.settings import Settings
from lakehouse.storage.heartbeats import served_by

ORDER = ("ingest", "rollups", "queries", "repair", "quality", "publish", "maintain")
# Only a schedule runs these: they watch other processes.
WATCHING = ("watch",)
# They have nothing to do if no query is registered.
OF_QUERIES = frozenset({"queries", "repair"})
Progress = Callable[[str], None]


class RunFailed(RuntimeError):
    """A DAG failed outside of any job."""


def run(
    settings: Settings,
    streams: Sequence[str] | None = None,
    progress: Progress = print,
    queries: Sequence[str] | None = None,
) -> list[Outcome]:
    """Run every DAG in order and return each job's outcome, up to the first failure that stops the run.

    ``streams`` names the streams to run, all by default; a publish always holds them all. ``queries`` names the
    queries to run, by default all over these streams alone. ``progress`` gets one line per job. Airflow adds about 10
    s to the time of the jobs, most of it for its imports. Raises KeyError if a stream is not declared, or a query not
    registered; RunFailed if a DAG failed and no job did, with the log to read.
    """
    from infra.airflow_home import airflow_environment
    from lakehouse.spark.session import announcing

    asked = {"streams": ",".join(settings.stream(name).name for name in streams or ()) or ALL_STREAMS}
    asked["queries"] = ",".join(settings.query(name).name for name in queries or ()) or ALL_QUERIES
    log = settings.layout.airflow / "logs" / "run.log"
    outcomes: list[Outcome] = []
    if who := served_by(settings.layout):
        progress(f"{who}: left to it are ingest, rollups, queries and publish")
    with (
        _words_to(log, progress) as say,
        # Tasks run in this process, even if a scheduler beside it makes pods of them.
        patch.dict(os.environ, TIDEMARK_POD_TEMPLATE=""),
        airflow_environment(settings),
        _described_once(),
        configured_as(settings),
        announcing(say),
        reporting(outcomes.append),
        reporting(lambda outcome: _tell(outcome, say)),
        interrupting_jobs(),
    ):
        for name in ORDER:
            # The DAG that runs queries first says what is wrong with a file.
            if name in OF_QUERIES and not (settings.registered or (name == "queries" and settings.faulty)):
                continue
            before = len(outcomes)
            succeeded = _run_dag(settings, name, asked)
            if not _goes_on(name, outcomes[before:]):
                break
            if not succeeded and all(outcome["ok"] for outcome in outcomes[before:]):
                raise RunFailed(f"the DAG {name} failed and none of its jobs did; see {log}")
    return outcomes


@contextmanager
def _described_once() -> Iterator[None]:
    """Let Airflow read the DAG files, and write them to its database, once instead of for each DAG."""
    from airflow.dag_processing import dagbag

    read, write = cache(dagbag.BundleDagBag), cache(dagbag.sync_bag_to_db)
    with patch.object(dagbag, "BundleDagBag", read), patch.object(dagbag, "sync_bag_to_db", write):
        yield


def _goes_on(name: str, outcomes: Sequence[Outcome]) -> bool:
    return name not in {"ingest", "rollups"} or not outcomes or any(outcome["ok"] for outcome in outcomes)


def _run_dag(settings: Settings, name: str, asked: Mapping[str, str]) -> bool:
    dag = getattr(import_module(f"dags.{name}"), name)(
        airflow_home(config_file(settings.config), settings.home)
    )
    # A retry would wait a minute; the user of this command is waiting too, sees what fails, and can run it again.
    dag.on_failure_callback = None
    for task in dag.tasks:
        task.retries = 0
    known = {key: value for key, value in asked.items() if key in dag.params}
    return bool(dag.test(run_conf=known).state == "success")


@contextmanager
def _words_to(log: Path, progress: Progress) -> Iterator[Progress]:
    """Send everything that this process prints to a log; return a function whose lines are still printed."""
    out, err = sys.stdout, sys.stderr

    def say(line: str) -> None:
        with redirect_stdout(out), redirect_stderr(err):
            progress(line)

    from lakehouse.spark.session import send_words_to

    # A JVM that a job starts writes to the descriptor and not to Python's stream.
    send_words_to(_opened(log).fileno())
    with redirect_stdout(_opened(log)), redirect_stderr(_opened(log)):
        yield say


@cache
def _opened(log: Path) -> IO[str]:
    # Airflow's loggers keep their first stream, so it stays open as long as this process.
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(b"")
    # To its end, wherever that is: another run on this home may write to it, too.
    return log.open("a", encoding="utf-8", buffering=1)


def _tell(outcome: Outcome, say: Progress) -> None:
    end = counts_of(outcome) if outcome["ok"] else f"FAILED\n{outcome['error']}"
    say(f"{outcome['job']:14} {outcome['stream']:16} {outcome['seconds']:6.1f} s  {end}")
    for change in outcome["figures"].get("changes", ()):
        say(f"{'':31} {change}")
