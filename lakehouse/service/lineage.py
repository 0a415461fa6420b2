"""OpenLineage events of a job's reads and writes: START, then COMPLETE or FAIL, to a file or an HTTP address.

Configured in ``[lineage]``; without it nothing is sent. Whoever does not answer never stops a job: an event that cannot
be delivered within ``TIMEOUT_S`` is dropped and said so, and for ``SILENCE_S`` nobody is asked again.

Reference: OpenLineage 2-0-2, https://openlineage.io/spec/2-0-2/OpenLineage.json
"""

from __future__ import annotations

import fcntl
import json
import logging
import time
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from lakehouse.config.sections import LineageSettings
from lakehouse.settings import Settings
from lakehouse.storage.layout import Home

log = logging.getLogger(__name__)
TIMEOUT_S = 2.0
SILENCE_S = 60.0
PRODUCER = "urn:tidemark"
SCHEMA = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
_FACETS = "https://openlineage.io/spec/facets"
ERROR = f"{_FACETS}/1-0-1/ErrorMessageRunFacet.json#/$defs/ErrorMessageRunFacet"
JOB_TYPE = f"{_FACETS}/2-0-3/JobTypeJobFacet.json#/$defs/JobTypeJobFacet"
Event = dict[str, Any]
Paths = tuple[list[str], list[str]]
# Of a job, names of what it reads and of what it writes.
_Named = tuple[Sequence[str], Sequence[str]]
_silent_until: dict[str, float] = {}


class JobRun:
    """One run of a job: ``started()``, then ``ended(error)``; both do nothing where no lineage is configured."""

    def __init__(self, settings: Settings, job: str, subject: str) -> None:
        self._settings, self._job, self._subject = settings, job, subject
        self._run_id = str(uuid.uuid4())

    def started(self) -> None:
        """Tell that the job begins."""
        self._tell("START")

    def ended(self, error: str | None) -> None:
        """Tell that the job is done, or with which words it failed."""
        self._tell("COMPLETE" if error is None else "FAIL", error)

    def _tell(self, kind: str, error: str | None = None) -> None:
        receiver = self._settings.lineage
        if receiver.file or receiver.url:
            deliver(receiver, event(self._settings, kind, self._run_id, self._job, self._subject, error))


def event(
    settings: Settings, kind: str, run_id: str, job: str, subject: str, error: str | None = None
) -> Event:
    """Return a run event; ``subject`` is the stream or query that the job is for, or ``all``."""
    reads, writes = datasets(settings, job, subject)
    facets = {}
    if error is not None:
        facets["errorMessage"] = _facet(ERROR, message=error, programmingLanguage="PYTHON")
    kind_of_job = _facet(JOB_TYPE, processingType="BATCH", integration="TIDEMARK", jobType="JOB")
    return {
        "eventType": kind,
        "eventTime": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "run": {"runId": run_id, "facets": facets},
        "job": {
            "namespace": settings.lineage.namespace,
            "name": f"{job}.{subject}",
            "facets": {"jobType": kind_of_job},
        },
        "inputs": [_dataset(name) for name in reads],
        "outputs": [_dataset(name) for name in writes],
        "producer": PRODUCER,
        "schemaURL": SCHEMA,
    }


def datasets(settings: Settings, job: str, subject: str) -> Paths:
    """Return what a job reads and what it writes: paths, or ``kafka://server/topic``."""
    layout = settings.layout
    if subject in settings.registered and job in _OF_QUERIES:
        return _among(_tables_of_query(settings, subject), _OF_QUERIES[job])
    if job == "publish":
        built = [str(layout.rollup(name)) for name in settings.streams]
        return built, [str(layout.serving)]
    if subject not in settings.streams:
        return [], []
    places = {"source": _source(settings, subject)} | _tables(layout, subject)
    return _among(places, _OF_STREAMS.get(job, ((), ())))


def _among(places: Mapping[str, list[str]], named: _Named) -> Paths:
    reads, writes = named
    return [p for name in reads for p in places[name]], [p for name in writes for p in places[name]]


_OF_QUERIES: dict[str, _Named] = {
    "run_queries": (("raw",), ("found",)),
    "repair_late": (("raw",), ("found",)),
    "check_queries": (("raw", "found"), ("quality",)),
    "maintain_queries": (("found",), ("found",)),
}
_OF_STREAMS: dict[str, _Named] = {
    "ingest": (("source",), ("raw", "quarantine", "ledger")),
    "requeue": (("quarantine",), ("raw", "quarantine", "ledger")),
    "build_rollups": (("raw", "ledger"), ("rollup",)),
    "check_quality": (("raw", "quarantine", "ledger", "rollup"), ("quality",)),
    "merge_raw": (("raw",), ("raw",)),
    "maintain": (("raw", "quarantine", "ledger", "rollup"), ("raw", "quarantine", "ledger", "rollup")),
}


def _tables_of_query(settings: Settings, query: str) -> dict[str, list[str]]:
    layout = settings.layout
    streams = dict.fromkeys(settings.query(query).streams)
    tables = (layout.pairs(query), layout.multiway(query), layout.answers(query), layout.selection(query))
    return {
        "raw": [str(layout.raw(name)) for name in streams],
        "found": [str(path) for path in tables if path.exists()],
        "quality": [str(layout.quality)],
    }


def _tables(layout: Home, stream: str) -> dict[str, list[str]]:
    of_stream = {name: getattr(layout, name)(stream) for name in ("raw", "quarantine", "ledger", "rollup")}
    return {name: [str(path)] for name, path in {**of_stream, "quality": layout.quality}.items()}


def _source(settings: Settings, stream: str) -> list[str]:
    source = settings.stream(stream).source
    if source.kind == "kafka":
        return [f"kafka://{source.servers[0]}/{topic}" for topic in source.topics]
    return [source.path]


def _dataset(name: str) -> Event:
    # OpenLineage names a topic by its broker, a file by its path on a file system.
    scheme, _, rest = name.partition("://")
    if rest:
        server, _, topic = rest.partition("/")
        return {"namespace": f"{scheme}://{server}", "name": topic}
    return {"namespace": "file", "name": name}


def _facet(schema: str, **fields: str) -> Event:
    return {"_producer": PRODUCER, "_schemaURL": schema, **fields}


def deliver(where: LineageSettings, content: Mapping[str, Any]) -> None:
    """Append an event to the file and post it to the address that are configured; never raises an ``Exception``."""
    text = json.dumps(content, ensure_ascii=False)
    if where.file:
        _attempt(str(where.file), lambda: _append(Path(str(where.file)), text))
    if where.url:
        _attempt(where.url, lambda: _post(where, text))


def _attempt(target: str, send: Any) -> None:
    if time.monotonic() < _silent_until.get(target, 0.0):
        return
    try:
        send()
    except Exception as error:
        _silent_until[target] = time.monotonic() + SILENCE_S
        log.warning("no lineage for %.0f s: %s: %s: %s", SILENCE_S, target, type(error).__name__, error)


def _append(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        # Several processes may append: a line must not be cut by another.
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(text + "\n")


def _post(where: LineageSettings, text: str) -> None:
    headers = {"Content-Type": "application/json"}
    if where.api_key is not None:
        headers["Authorization"] = f"Bearer {where.api_key.get_secret_value()}"
    with urlopen(Request(str(where.url), text.encode(), headers, method="POST"), timeout=TIMEOUT_S) as answer:
        answer.read()
