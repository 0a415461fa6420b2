"""The part that ``main()`` of every job shares: parse arguments, print figures or one clear error, return an exit code.

python -m jobs.ingest --config tidemark.toml telemetry flows
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from jobs.running.outcome import ALL_STREAMS, job_of, recorded
from lakehouse.config.problems import ConfigError, NotDeclared
from lakehouse.settings import Settings, load_settings
from lakehouse.storage.control.outcomes import error_text
from lakehouse.storage.ownership import keep_private

Kind = Literal["stream", "query"]
_KNOWN = {"stream": "declared streams", "query": "registered queries"}


def run_for_streams(run: Callable[..., dict[str, Any]], argv: Sequence[str] | None = None) -> int:
    """Run a job for the named streams (all by default) and print its figures as JSON, one line per stream.

    Returns 0, 1 if a stream failed (the others are still run), 2 for a wrong configuration.
    """
    return _run_for("stream", run, argv)


def run_for_queries(run: Callable[..., dict[str, Any]], argv: Sequence[str] | None = None) -> int:
    """Run a job for the named registered queries, all by default, as ``run_for_streams`` does."""
    return _run_for("query", run, argv)


def run_for_all(run: Callable[..., dict[str, Any]], argv: Sequence[str] | None = None) -> int:
    """Run a job that covers all streams at once, as ``run_for_streams`` does."""
    asked = arguments_of(run, argv)
    try:
        settings = load_settings(asked.config, asked.home)
    except Exception as error:
        return _refused(error)
    from lakehouse.spark.session import build_session

    return _run_one(run, settings, ALL_STREAMS, partial(run, settings, build_session(settings)))


def _refused(error: Exception) -> int:
    """Print why no work begins; return the exit code."""
    print(error_text(error), file=sys.stderr)
    return 2 if isinstance(error, ConfigError | NotDeclared) else 1


def arguments_of(
    run: Callable[..., Any], argv: Sequence[str] | None, kind: Kind | None = None
) -> argparse.Namespace:
    """Return the arguments of a job: ``config``, ``home``, and ``names`` of a kind; its files are private."""
    keep_private()
    parser = argparse.ArgumentParser(description=(sys.modules[run.__module__].__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--config", type=Path, help="tidemark.toml (default: TIDEMARK_CONFIG, or ./tidemark.toml)"
    )
    parser.add_argument("--home", type=Path, help="where everything is written (default: what the file says)")
    if kind:
        parser.add_argument("names", nargs="*", metavar=kind.upper(), help=f"{_KNOWN[kind]} (default: all)")
    return parser.parse_args(argv)


def _run_for(kind: Kind, run: Callable[..., dict[str, Any]], argv: Sequence[str] | None) -> int:
    asked = arguments_of(run, argv, kind)
    try:
        settings = load_settings(asked.config, asked.home)
        known, find = _known(settings, kind)
        # A query whose file is wrong fails with its message, and the others run.
        faulty = settings.faulty if kind == "query" else ()
        names = [find(name).name for name in asked.names] or [*known, *faulty]
    except Exception as error:
        return _refused(error)
    from lakehouse.spark.session import build_session

    spark = build_session(settings)
    works = {name: partial(run, settings, spark, name) for name in names}
    return max((_run_one(run, settings, name, work, {kind: name}) for name, work in works.items()), default=0)


def _run_one(
    run: Callable[..., Any],
    settings: Settings,
    name: str,
    work: Callable[[], dict[str, Any]],
    first: Mapping[str, str] | None = None,
) -> int:
    """Do a job's work, print its figures or its error, and return the exit code."""
    job = job_of(run)
    try:
        figures = recorded(job, settings, name, work)
    except Exception as error:
        print(f"{job} {name}: {error_text(error)}", file=sys.stderr)
        return 1
    print(json.dumps({**(first or {}), **figures}), flush=True)
    return 0


def _known(settings: Settings, kind: Kind) -> tuple[Mapping[str, Any], Callable[[str], Any]]:
    if kind == "stream":
        return settings.streams, settings.stream
    return settings.registered, settings.query
