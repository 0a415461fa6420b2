"""Bytes that tasks of Spark have sent away, by its own metrics: into shuffles, and to the driver."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Moved:
    """Bytes as they go, compressed.

    ``shuffled``: written for other tasks. ``collected``: sent to the driver, each task's report of a kilobyte or two
    among them; rows that are broadcast go there first and then, the same bytes again, to every executor.
    """

    shuffled: int
    collected: int

    @property
    def total(self) -> int:
        """Return both together."""
        return self.shuffled + self.collected


class Meter:
    """Counts what the SQL queries of a session move from when the meter is made, other threads' queries too.

    Cost: a few calls into the JVM for each query and stage since then.
    """

    def __init__(self, spark: SparkSession) -> None:
        session: Any = spark
        self._gateway: Any = session.sparkContext._gateway
        self._context: Any = session.sparkContext._jsc.sc()
        self._queries: Any = session._jsparkSession.sharedState().statusStore()
        self._after = next((query.executionId() for query in self._newest_first()), -1)

    def read(self) -> Moved:
        """Return what was moved so far."""
        own = takewhile(lambda query: query.executionId() > self._after, self._newest_first())
        stages = {number for query in own for number in _listed(query.stages().toSeq())}
        found = [stage for number in stages for stage in self._attempts(number)]
        return Moved(
            sum(int(stage.shuffleWriteBytes()) for stage in found),
            sum(int(stage.resultSize()) for stage in found),
        )

    def _attempts(self, number: int) -> list[Any]:
        """Return the attempts of a stage; none of one that was passed over and is forgotten: it moved nothing."""
        jvm = self._gateway.jvm
        none = self._gateway.new_array(jvm.double, 0)
        return _listed(
            self._context.statusStore().stageData(number, False, jvm.java.util.ArrayList(), False, none)
        )

    def _newest_first(self) -> Iterator[Any]:
        # What is known comes over a bus, and may be on its way.
        self._context.listenerBus().waitUntilEmpty()
        found = self._queries.executionsList()
        return (found.apply(place) for place in reversed(range(found.size())))


def _listed(found: Any) -> list[Any]:
    return [found.apply(place) for place in range(found.size())]
