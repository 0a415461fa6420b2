"""Seconds of a job by its own functions, and what Spark and the bridge to it did meanwhile.

Nothing in the code that is measured knows of it: functions are wrapped while a ``Stopwatch`` runs, and put back. A
step's seconds are its own, without those of steps inside it. Steps that run in threads side by side overlap.
"""

from __future__ import annotations

import functools
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REST = "everything else"
# Calls over the bridge that wait for Spark to do work; all others build plans or ask for facts.
ACTIONS = (
    "collectToPython",
    "collectAsArrowToPython",
    "save",
    "count",
    "awaitTermination",
    "createOrReplace",
)
Interval = tuple[float, float]
Named = str | Callable[..., str]


@dataclass
class Step:
    """What one step took: its seconds, calls over the bridge with their seconds, and when it ran."""

    seconds: float = 0.0
    calls: int = 0
    calls_s: float = 0.0
    intervals: list[Interval] = field(default_factory=list)


class Stopwatch:
    """Times steps by wrapping functions: ``watch.time(module, "function", "step")``, then ``with watch.running():``."""

    def __init__(self) -> None:
        self.steps: defaultdict[str, Step] = defaultdict(Step)
        self.wall = 0.0
        self._wanted: list[tuple[Any, str, Named]] = []
        self._stacks = threading.local()
        self._lock = threading.Lock()

    def time(self, owner: Any, function: str, step: Named) -> None:
        """Count what a function of a module or class takes to a step, which its arguments may name.

        Raises:
            AttributeError: there is no such function any more.
        """
        if function not in owner.__dict__:
            raise AttributeError(f"{owner.__name__} has no {function}, which is to be timed as {step!r}")
        self._wanted.append((owner, function, step))

    @contextmanager
    def running(self) -> Iterator[None]:
        """Time what happens inside."""
        from py4j.java_gateway import GatewayClient

        kept = [(owner, name, owner.__dict__[name]) for owner, name, _ in self._wanted]
        kept.append((GatewayClient, "send_command", GatewayClient.send_command))
        for owner, name, step in self._wanted:
            setattr(owner, name, self._wrapped(owner, name, step))
        GatewayClient.send_command = self._counted(GatewayClient.send_command)
        started = time.time()
        try:
            yield
        finally:
            self.wall = time.time() - started
            for owner, name, before in kept:
                setattr(owner, name, before)
        self.steps[REST].intervals = [(started, started + self.wall)]
        self.steps[REST].seconds = max(0.0, self.wall - sum(each.seconds for each in self.steps.values()))

    def _wrapped(self, owner: Any, name: str, step: Named) -> Any:
        member = owner.__dict__[name]
        if isinstance(member, functools.cached_property):
            wrapped: Any = functools.cached_property(self._timed(member.func, step))
            wrapped.__set_name__(owner, name)
            return wrapped
        return self._timed(member, step)

    def _timed(self, function: Callable[..., Any], named_by: Named) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*args: Any, **named: Any) -> Any:
            stack, step = self._stack, named_by if isinstance(named_by, str) else named_by(*args, **named)
            stack.append([step, 0.0])
            began = time.time()
            try:
                return function(*args, **named)
            finally:
                taken, inside = time.time() - began, stack.pop()[1]
                if stack:
                    stack[-1][1] += taken
                with self._lock:
                    self.steps[step].seconds += taken - inside
                    self.steps[step].intervals.append((began, began + taken))

        return timed

    def _counted(self, send: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(send)
        def counted(client: Any, command: str, *args: Any, **named: Any) -> Any:
            began = time.time()
            try:
                return send(client, command, *args, **named)
            finally:
                taken, stack = time.time() - began, self._stack
                with self._lock:
                    step = self.steps[stack[-1][0] if stack else REST]
                    step.calls += 1
                    step.calls_s += 0.0 if _is_action(command) else taken

        return counted

    @property
    def _stack(self) -> list[list[Any]]:
        """The steps that this thread is in, innermost last, each with the seconds of steps inside it."""
        if not hasattr(self._stacks, "open"):
            self._stacks.open = []
        stack: list[list[Any]] = self._stacks.open
        return stack


def _is_action(command: str) -> bool:
    # A command of the bridge is lines: kind, object, method, arguments.
    return any(line in ACTIONS for line in command.split("\n", 3)[:3])


@dataclass(frozen=True)
class Job:
    """A job of Spark's: when it ran, and whether it only worked on the log of a Delta table."""

    number: int
    ran: Interval
    is_of_log: bool


def jobs_since(spark: SparkSession, number: int) -> list[Job]:
    """Return Spark's finished jobs from this number on."""
    store = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    found = []
    for place in range(store.size()):
        job = store.apply(place)
        if job.jobId() >= number and job.completionTime().isDefined():
            ran = job.submissionTime().get().getTime() / 1000, job.completionTime().get().getTime() / 1000
            told = job.description().get() if job.description().isDefined() else ""
            # Delta names the jobs over its own log; those of a table's rows bear the name of the action.
            is_of_log = told.startswith("Delta:") or "DatabricksLogging" in job.name()
            found.append(Job(job.jobId(), ran, is_of_log or "CompletableFuture" in job.name()))
    return sorted(found, key=lambda job: job.number)


def busy(jobs: Sequence[Job], intervals: Sequence[Interval]) -> float:
    """Return for how many seconds inside these intervals at least one of the jobs ran."""
    cut = sorted(
        (max(low, job.ran[0]), min(high, job.ran[1]))
        for low, high in intervals
        for job in jobs
        if max(low, job.ran[0]) < min(high, job.ran[1])
    )
    seconds, reached = 0.0, float("-inf")
    for low, high in cut:
        seconds += max(0.0, high - max(low, reached))
        reached = max(reached, high)
    return seconds


def append_to(rows: object, table: Path, *_: object) -> str:
    """Name the step of an append after its table."""
    return f"append to {table.parent.name}"


def steps_table(watch: Stopwatch, jobs: Sequence[Job]) -> list[list[Any]]:
    """Return a row per step: seconds, share of the whole, jobs, of them on a log, bridge calls and their seconds."""
    rows = []
    for name, step in watch.steps.items():
        mine = [job for job in jobs if _starts_in(job, watch, name)]
        on_log = sum(job.is_of_log for job in mine)
        share = step.seconds / watch.wall if watch.wall else 0.0
        rows.append([name, step.seconds, share, len(mine), on_log, step.calls, step.calls_s])
    return rows


HEADS = ("step", "seconds", "share", "jobs", "of a log", "bridge calls", "seconds of these")


def _starts_in(job: Job, watch: Stopwatch, name: str) -> bool:
    """Tell if this step is the innermost, the one that began last, in which a job was started."""
    at = job.ran[0]
    open_steps = [
        (low, step) for step, each in watch.steps.items() for low, high in each.intervals if low <= at < high
    ]
    return bool(open_steps) and max(open_steps)[1] == name
