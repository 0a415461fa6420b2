"""The verdict on one rule, and the error that a failed one raises."""

from collections.abc import Sequence
from dataclasses import dataclass

from lakehouse.config.problems import Permanent
from lakehouse.spark.deviations import Counts
from lakehouse.storage.stores.store_path import Location


@dataclass(frozen=True)
class Verdict:
    """Verdict of one rule on one table of one stream; ``where`` names the row of the frame that was worst.

    ``seen``: what was observed of a rule that the stream declares, ``counts``: the same in rows.
    """

    stream: str
    table: str
    metric: str
    success: bool
    observed: float | None
    expected: str
    says: str
    where: str = ""
    seen: str = ""
    counts: Counts | None = None

    def __str__(self) -> str:
        if self.seen:
            return f"{self.table}.{self.metric}: {self.says.rstrip('.')}: {self.seen}"
        observed = "nothing" if self.observed is None else f"{self.observed:g}"
        where = f" ({self.where})" if self.where else ""
        return f"{self.table}.{self.metric} is {observed}{where}, expected {self.expected}: {self.says}"


class GateFailed(Permanent, RuntimeError):
    """Checks failed; where they are about a stream, its newest state is withheld.

    The message says which checks, what they found and expected, ``examples`` of rejected records, and where the report
    is. ``kind`` is stream or query.
    """

    def __init__(
        self,
        stream: str,
        failed: Sequence[Verdict],
        report: Location,
        kind: str = "stream",
        examples: Sequence[str] = (),
    ) -> None:
        self.stream = stream
        self.failed = tuple(failed)
        self.report = report
        count = "1 check" if len(failed) == 1 else f"{len(failed)} checks"
        # What a query's pairs lack is published beside them: holding them back would hide it.
        stopped = (
            "its last published state stays, other streams go on"
            if kind == "stream"
            else "what it found is published all the same"
        )
        lines = [f"{kind} {stream}: {count} failed, {stopped}"]
        lines += [f"  {verdict}" for verdict in failed]
        lines += [f"  {example}" for example in examples]
        super().__init__("\n".join([*lines, f"report: {report}"]))
