"""The work of a DAG's task around a job: find the configuration, choose streams, share one session, record the outcome.

TIDEMARK_CONFIG and TIDEMARK_HOME name the configuration and home; a DAG's ``config`` parameter wins over the first.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jobs.running.outcome import ALL_STREAMS, job_of, log_figures, recorded, reporting
from lakehouse.config.config_paths import config_file, given_home
from lakehouse.config.problems import ConfigError, Problem, nearest
from lakehouse.config.problems import Permanent as Permanent
from lakehouse.settings import Settings, load_settings
from lakehouse.storage.control.outcomes import error_text as error_text
from lakehouse.storage.corrections import read_corrections
from lakehouse.storage.heartbeats import served_by, service_heartbeat
from lakehouse.storage.ledger import read_extent
from lakehouse.storage.ownership import keep_private

log = logging.getLogger(__name__)
Run = Callable[..., dict[str, Any]]
PARAMETERS = ("streams", "queries", "from", "to", "config")
# Airflow calls tasks with the parameters of a run alone.
_CONFIGURED: list[Settings] = []


@contextmanager
def configured_as(settings: Settings) -> Iterator[None]:
    """Give these settings to the tasks of this process during the block, so that none reads them again."""
    _CONFIGURED.append(settings)
    try:
        yield
    finally:
        _CONFIGURED.pop()


def configured(params: Mapping[str, Any]) -> Settings:
    """Return the settings that a DAG's parameters and the environment name.

    Raises ConfigError with every problem of the configuration, or with parameters that no DAG has: a run that leaves
    a misspelt one out would do something else.
    """
    keep_private()
    if unknown := params.keys() - PARAMETERS:
        raise ConfigError(
            "parameters", [Problem(n, "a value", nearest(n, PARAMETERS)) for n in sorted(unknown)]
        )
    named = params.get("config")
    if _CONFIGURED and not named:
        return _CONFIGURED[-1]
    return load_settings(config_file(Path(named) if named else None), given_home())


def position(stream: str, params: Mapping[str, Any]) -> list[int]:
    """Return how far a stream is: its newest finished batch and its newest correction; none before the first batch."""
    layout = configured(params).layout
    batch = read_extent(layout, stream).batch
    log.info("%s: newest batch %d", stream, batch)
    return (
        [batch, max((done.number for done in read_corrections(layout, stream)), default=0)] if batch else []
    )


def served_positions(params: Mapping[str, Any]) -> dict[str, list[int]]:
    """Return how far each stream is that a service processes now."""
    settings = configured(params)
    heartbeat = service_heartbeat(settings.layout) or {}
    return {name: position(name, params) for name in heartbeat.get("streams", {}) if name in settings.streams}


def service_of(params: Mapping[str, Any]) -> str | None:
    """Return a sentence that names the service running on the home, None if there is none."""
    return served_by(configured(params).layout)


def run_one(run: Run, name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Run one job for one stream or query in this process's session and record its outcome."""
    return _run(run, name, params, name)


def run_all(run: Run, params: Mapping[str, Any]) -> dict[str, Any]:
    """Run one job that covers all streams at once and record its outcome."""
    return _run(run, ALL_STREAMS, params)


def _run(run: Run, of: str, params: Mapping[str, Any], *arguments: str) -> dict[str, Any]:
    from lakehouse.spark.session import announcing, build_session, send_words_to

    settings = configured(params)
    if not _CONFIGURED:
        # Airflow shows as errors what a task's JVM says on stderr.
        send_words_to(1)
    with reporting(log_figures), announcing(log.info):
        return recorded(job_of(run), settings, of, lambda: run(settings, build_session(settings), *arguments))
