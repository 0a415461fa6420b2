"""What is wrong with a query's text: line, column, reason and what is expected; all of it at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """One thing in a query that cannot be run. Lines and columns count from 1.

    ``about``: the stream that is not there, where that is what is wrong.
    """

    line: int
    column: int
    reason: str
    expected: str
    about: str | None = None

    def __str__(self) -> str:
        return f"{self.line}:{self.column}: found {self.reason}; expected {self.expected}"


class QueryError(ValueError):
    """A query that cannot be run: the first fault's place and reason, and all of them in ``faults``."""

    def __init__(self, name: str, faults: Sequence[Fault]) -> None:
        self.faults = tuple(sorted(faults, key=lambda fault: (fault.line, fault.column)))
        self.line, self.column = self.faults[0].line, self.faults[0].column
        self.reason, self.expected = self.faults[0].reason, self.faults[0].expected
        super().__init__("\n".join(f"{name}:{fault}" for fault in self.faults))


class Faults:
    """What is wrong with one text, collected by offset."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.found: list[Fault] = []

    def add(self, offset: int, reason: str, expected: str, about: str | None = None) -> None:
        """Note a fault; one that was noted before is not noted again."""
        line = self._text.count("\n", 0, offset) + 1
        fault = Fault(line, offset - (self._text.rfind("\n", 0, offset) + 1) + 1, reason, expected, about)
        if fault not in self.found:
            self.found.append(fault)
