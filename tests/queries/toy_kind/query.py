"""A query that samples rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lakehouse.queries.kind import Output, Query, Side


@dataclass(frozen=True)
class SampleQuery(Query):
    """One row of ``one_in`` of a stream."""

    kind: ClassVar[str] = "sample"
    sides: tuple[Side]
    outputs: tuple[Output, ...]
    one_in: int

    def definition(self) -> str:
        """What the rows depend on."""
        outputs = ", ".join(f"{each.name} = {each.column}" for each in self.outputs)
        return f"{self.streams[0]} OUTPUTS [{outputs}] SAMPLE {self.one_in}"

    def how(self) -> str:
        """Each row is decided alone."""
        return "ROW BY ROW"
