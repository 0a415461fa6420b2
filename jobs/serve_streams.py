"""Run ingest, rollups, queries and publish continuously, in one process.

Each task is a job that the DAGs call, too. It is probed every few seconds and run if something is new. Each stream
has its own worker, so one that fails or hangs delays no other. Stop the service by a signal, or kill it anywhere: the
next start continues. Every version has passed the gate of totals. The rules of quality are checked separately; a
failed one stops the publish until it passes.
"""

import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from lakehouse.service.stopping import Stop, notify, until_signalled
from lakehouse.service.workers import STOPS_WITHIN_S, Service
from lakehouse.settings import Settings
from lakehouse.storage.attempts import forgive_attempt
from lakehouse.storage.control.lease import LeaseHeld, lease
from lakehouse.storage.control.seal import require_leases
from lakehouse.storage.heartbeats import SERVICE, Heartbeat, iso, served_by, write_heartbeat

log = logging.getLogger(__name__)
EVERY_S, PUBLISH_S = 2.0, 2.0


class AlreadyServed(RuntimeError):
    """Another service runs on this home."""


def run(
    settings: Settings,
    streams: Sequence[str] | None = None,
    every_s: float = EVERY_S,
    publish_s: float = PUBLISH_S,
    stops_within_s: float = STOPS_WITHIN_S,
) -> dict[str, Any]:
    """Serve streams, all by default, until SIGTERM or SIGINT; return the tasks that the stop interrupted.

    Probes every ``every_s``, publishes at most every ``publish_s``. A stop lets the running tasks finish and takes at
    most ``stops_within_s``; a second signal ends the process at once. Call it in the main thread. Raises
    AlreadyServed if another process serves this home. Raises WorkerEnded if Spark or a worker has ended; start again.
    Raises LeaseLost if the database of the control store has ended this process's session; start again. Raises
    KeyError if a stream is not declared.
    """
    names = [settings.stream(name).name for name in streams or settings.streams]
    with _alone(settings), until_signalled() as stop:
        _tell(settings, "starting", every_s, {"streams": {name: {} for name in names}})
        cut_off = _serve(settings, names, every_s, publish_s, stop, stops_within_s)
        notify("STOPPING=1")
    return {"cut_off": cut_off}


def _serve(
    settings: Settings,
    streams: Sequence[str],
    every_s: float,
    publish_s: float,
    stop: Stop,
    stops_within_s: float,
) -> list[str]:
    from jobs.service_tasks import ServiceTasks
    from lakehouse.spark.session import end_session, is_running, session_with_log, started_session

    spark = session_with_log(settings, settings.layout.service / "spark.log")
    if not settings.spark.is_local:
        # Problems of a cluster are reported before anything is served.
        spark = started_session(settings)
        # A session that the main thread starts takes Ctrl-C for itself.
        stop.listen()
    served = ServiceTasks(settings, spark, streams, every_s, publish_s)

    def tell(state: str) -> None:
        if state == "running":
            # Another service may have taken over from this one if it was paused: it ends, and is started again.
            require_leases()
        _tell(settings, state, every_s, served.snapshot())

    service = Service(served.workers, every_s, tell, lambda: is_running(spark), stop)
    tell("running")
    notify("READY=1")
    paces = f"looking every {every_s:.3g} s, publishing at most every {publish_s:.3g} s"
    log.info("serving %s, %s", ", ".join(streams), paces)
    running = service.run(stops_within_s)
    for task in (task for task in running if task.job == "ingest"):
        forgive_attempt(settings.layout, task.name)
    cut_off = [f"{task.job} {task.name}" for task in running]
    if not cut_off:
        end_session(spark)
    tell("stopped")
    log.info("stopped%s", f"; cut off, to be made again: {', '.join(cut_off)}" if cut_off else "")
    return cut_off


_started_us = time.time_ns() // 1000


def _tell(settings: Settings, state: str, every_s: float, facts: Mapping[str, Any]) -> None:
    at, started, figures = iso(time.time_ns() // 1000), iso(_started_us), {"every_s": every_s, **facts}
    try:
        write_heartbeat(
            settings.layout, Heartbeat(SERVICE, "", state, at, started, os.getpid(), figures=figures)
        )
    except OSError as error:
        # A full disk must not end the service, which can continue when there is room; the heartbeat's age shows it.
        log.warning("no heartbeat: %s", error)
    notify("WATCHDOG=1")


@contextmanager
def _alone(settings: Settings) -> Iterator[None]:
    """Be the only service of a home."""
    settings.layout.service.mkdir(parents=True, exist_ok=True)
    with ExitStack() as held:
        try:
            # A process that asks whether a home is served holds the lease for a moment.
            held.enter_context(lease(settings.layout, settings.layout.service, timeout_s=1))
        except LeaseHeld:
            holder = (
                served_by(settings.layout) or f"another process holds the lease on {settings.layout.service}"
            )
            raise AlreadyServed(f"only one service at a time: {holder}") from None
        yield
