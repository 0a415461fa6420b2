"""OpenLineage events of a job's reads and writes: START, then COMPLETE or FAIL, to a file or an HTTP address.

Configured in ``[lineage]``; without it nothing is sent. Whoever does not answer never stops a job: an event that cannot
be delivered within ``TIMEOUT_S`` is dropped and said so, and for ``SILENCE_S`` nobody is asked again. The run that a
job is part of is that of Airflow's DAG, or the one that ``OPENLINEAGE_PARENT_ID`` names: NAMESPACE/JOB/RUN.
"""

from __future__ import annotations

import fcntl
import logging
import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from lakehouse.config.sections import LineageSettings
from lakehouse.settings import Settings

if TYPE_CHECKING:
    # Its import takes longer than most jobs without lineage should wait.
    from openlineage.client.event_v2 import RunEvent
    from openlineage.client.facet_v2 import parent_run

log = logging.getLogger(__name__)
TIMEOUT_S = 2.0
SILENCE_S = 60.0
PRODUCER = "urn:tidemark"
Paths = tuple[list[str], list[str]]
# Of a job, names of what it reads and of what it writes.
_Named = tuple[Sequence[str], Sequence[str]]
# A target that failed is left alone for a while by every job of the process.
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
) -> RunEvent:
    """Return a run event; ``subject`` is the stream or query that the job is for, or ``all``."""
    from openlineage.client import event_v2, facet_v2

    facet_v2.set_producer(PRODUCER)
    reads, writes = datasets(settings, job, subject)
    namespace, about = settings.lineage.namespace, facet_v2.job_type_job
    job_type = about.JobTypeJobFacet(processingType="BATCH", integration="TIDEMARK", jobType="JOB")
    facets: dict[str, facet_v2.RunFacet] = {}
    if (parent := _parent(namespace)) is not None:
        facets["parent"] = parent
    if error is not None:
        facets["errorMessage"] = facet_v2.error_message_run.ErrorMessageRunFacet(error, "PYTHON")
    return event_v2.RunEvent(
        eventType=event_v2.RunState[kind],
        eventTime=datetime.now(UTC).isoformat(timespec="milliseconds"),
        run=event_v2.Run(run_id, facets),
        job=event_v2.Job(namespace, f"{job}.{subject}", {"jobType": job_type}),
        inputs=[event_v2.InputDataset(*_dataset(name)) for name in reads],
        outputs=[event_v2.OutputDataset(*_dataset(name)) for name in writes],
        producer=PRODUCER,
    )


def _parent(namespace: str) -> parent_run.ParentRunFacet | None:
    """Return the run that this process's jobs are part of, None if there is none."""
    dag, run = (os.environ.get(f"AIRFLOW_CTX_{name}") for name in ("DAG_ID", "DAG_RUN_ID"))
    given = os.environ.get("OPENLINEAGE_PARENT_ID", "").rsplit("/", 2)
    if len(given) != 3:
        if not dag or not run:
            return None
        given = [namespace, dag, str(uuid.uuid5(uuid.NAMESPACE_URL, f"{namespace}/{dag}/{run}"))]
    from openlineage.client.facet_v2 import parent_run

    return parent_run.ParentRunFacet(run=parent_run.Run(given[2]), job=parent_run.Job(given[0], given[1]))


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
    source = settings.stream(subject).source
    topics = [f"kafka://{source.servers[0]}/{topic}" for topic in source.topics if source.kind == "kafka"]
    of_stream = {
        name: [str(getattr(layout, name)(subject))] for name in ("raw", "quarantine", "ledger", "rollup")
    }
    places = {"source": topics or [source.path], "quality": [str(layout.quality)], **of_stream}
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


def _dataset(name: str) -> tuple[str, str]:
    """Return namespace and name: OpenLineage names a topic by its broker, a file by its path on a file system."""
    scheme, _, rest = name.partition("://")
    if rest:
        server, _, topic = rest.partition("/")
        return f"{scheme}://{server}", topic
    return "file", name


def deliver(where: LineageSettings, sent: RunEvent) -> None:
    """Append an event to the file and post it to the address that are configured; never raises an ``Exception``."""
    if where.file:
        _attempt(str(where.file), lambda: _append(Path(str(where.file)), sent))
    if where.url:
        _attempt(where.url, lambda: _post(where, sent))


def _attempt(target: str, send: Callable[[], None]) -> None:
    if time.monotonic() < _silent_until.get(target, 0.0):
        return
    try:
        send()
    except Exception as error:
        _silent_until[target] = time.monotonic() + SILENCE_S
        log.warning("no lineage for %.0f s: %s: %s: %s", SILENCE_S, target, type(error).__name__, error)


def _append(path: Path, sent: RunEvent) -> None:
    from openlineage.client.serde import Serde

    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        # Several processes may append: a line must not be cut by another.
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(Serde.to_json(sent) + "\n")


def _post(where: LineageSettings, sent: RunEvent) -> None:
    from openlineage.client.transport import http

    url = urlsplit(str(where.url))
    key = where.api_key.get_secret_value() if where.api_key else ""
    auth = http.ApiKeyTokenProvider({"apiKey": key}) if key else http.TokenProvider({})
    once = {"total": 0, "connect": 0, "read": 0}
    config = http.HttpConfig(
        url=f"{url.scheme}://{url.netloc}",
        endpoint=url._replace(scheme="", netloc="").geturl(),
        timeout=TIMEOUT_S,
        auth=auth,
        retry=once,
    )
    http.HttpTransport(config).emit(sent)
