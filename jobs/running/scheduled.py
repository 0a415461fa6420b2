"""The work of a DAG's task around a job: find the configuration, choose streams, share one session, record the outcome.

TIDEMARK_CONFIG and TIDEMARK_HOME name the configuration and home; a DAG's ``config`` parameter wins over the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from jobs.running.outcome import ALL_STREAMS, job_of, recorded
from lakehouse.config.config_paths import config_file, given_home
from lakehouse.config.problems import Permanent as Permanent
from lakehouse.settings import Settings, load_settings
from lakehouse.storage.control.outcomes import error_text as error_text
from lakehouse.storage.heartbeats import served_by, service_heartbeat
from lakehouse.storage.ownership import keep_private

ALL_QUERIES = "all"
Run = Callable[..., dict[str, Any]]
Kind = Literal["stream", "query"]
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

    Raises:
        ConfigError: with every problem of the configuration.
    """
    keep_private()
    named = params.get("config")
    if _CONFIGURED and not named:
        return _CONFIGURED[-1]
    return load_settings(config_file(Path(named) if named else None), given_home())


def chosen_streams(params: Mapping[str, Any]) -> list[str]:
    """Return the declared streams that ``streams`` names: ``all``, or names with commas between.

    Raises:
        KeyError: if a name is not declared, with those that are.
    """
    return _streams(configured(params), params)


def chosen_queries(params: Mapping[str, Any]) -> list[str]:
    """Return the registered queries that ``queries`` names and whose streams ``streams`` names.

    Raises:
        KeyError: if a name is not registered, with those that are.
    """
    settings = configured(params)
    streams = set(_streams(settings, params))
    asked = str(params.get("queries") or ALL_QUERIES)
    names = list(settings.registered) if asked == ALL_QUERIES else [name.strip() for name in asked.split(",")]
    return [name for name in names if streams.issuperset(settings.query(name).streams)]


def service_of(params: Mapping[str, Any]) -> str | None:
    """Return a sentence that names the service running on the home, None if there is none."""
    return served_by(configured(params).layout)


def unserved(params: Mapping[str, Any], kind: Kind) -> tuple[list[str], str | None]:
    """Return the streams or queries in ``streams`` that no service handles, and the service that handles the others.

    A query is left to the service if all its streams are.
    """
    settings = configured(params)
    chosen = (
        chosen_streams(params) if kind == "stream" else [*chosen_queries(params), *_faulty(settings, params)]
    )
    who = served_by(settings.layout)
    heartbeat = service_heartbeat(settings.layout) if who else None
    if heartbeat is None:
        return chosen, None
    streams = set(heartbeat.get("streams", {}))
    if kind == "stream":
        return [name for name in chosen if name not in streams], who
    return [
        name
        for name in chosen
        if name in settings.faulty or not streams.issuperset(settings.query(name).streams)
    ], who


def run_one(run: Run, name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Run one job for one stream or query in this process's session and record its outcome."""
    from lakehouse.spark.session import build_session

    settings = configured(params)
    return recorded(job_of(run), settings, name, lambda: run(settings, build_session(settings), name))


def run_all(run: Run, params: Mapping[str, Any]) -> dict[str, Any]:
    """Run one job that covers all streams at once and record its outcome."""
    from lakehouse.spark.session import build_session

    settings = configured(params)
    return recorded(job_of(run), settings, ALL_STREAMS, lambda: run(settings, build_session(settings)))


def _faulty(settings: Settings, params: Mapping[str, Any]) -> list[str]:
    """Return the queries whose files are wrong, where all are asked for: the task of each fails with its message."""
    asked = {str(params.get(name) or ALL_STREAMS) for name in ("streams", "queries")}
    return list(settings.faulty) if asked == {ALL_STREAMS} else []


def _streams(settings: Settings, params: Mapping[str, Any]) -> list[str]:
    asked = str(params.get("streams") or ALL_STREAMS)
    if asked == ALL_STREAMS:
        return list(settings.streams)
    return [settings.stream(name.strip()).name for name in asked.split(",")]
