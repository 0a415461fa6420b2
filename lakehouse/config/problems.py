"""The problems of a wrong configuration, all at once: each with its key, what was found and what is expected."""

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

# What is longer is cut where an error names it.
_LONGEST = 300


@dataclass(frozen=True)
class Problem:
    """One thing wrong in the configuration; ``line``: of its file, where that is known."""

    key: str
    found: str
    expected: str
    line: int | None = None

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        return f"{where}{_short(self.key)}: found {_short(self.found)}; expected {self.expected}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]}... ({len(text):,} characters)"


class Permanent(Exception):
    """Base of errors that stay until somebody changes something, so that a retry alone would fail again.

    Schedulers retry every other error: a lease that another process holds, a store, broker or database that is away.
    """


class EngineEnded(RuntimeError):
    """Spark's JVM ended in the midst of work that needed it, which is no fault of that work."""


class NotDeclared(Permanent, KeyError):
    """A stream or query of this name is not declared; the message lists those that are."""

    # A KeyError would show its message in quotes.
    __str__ = Exception.__str__


class ConfigError(Permanent, ValueError):
    """Every problem of one configuration at once."""

    def __init__(self, source: str, problems: list[Problem]) -> None:
        self.source = source
        self.problems = problems
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        super().__init__("\n".join([f"{source}: {count}", *(f"  {problem}" for problem in problems)]))


def nearest(name: str, among: Iterable[str]) -> str:
    """Return what could have been meant."""
    known = list(among)
    close = get_close_matches(name, known, n=1)
    return f"one of {', '.join(known) or 'none'}" + (f" (did you mean {close[0]}?)" if close else "")
