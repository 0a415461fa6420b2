"""Periods below the recall asked for that a check has reported, so that each fails one check and not all that follow.

checked/query-<name>.misses.json    [[first start, last start, when they were first reported], ...], of one step between

What a period missed online stays as it is. A file that is lost lets the periods be reported once more.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from lakehouse.algorithms.late_join.contract import Bools, Int64s
from lakehouse.storage.atomic_files import write_text


@dataclass(frozen=True)
class ReportedMisses:
    """Runs of periods, in order: starts of the first and last period of each, and when it was first reported."""

    first_us: Int64s
    last_us: Int64s
    at: tuple[str, ...] = ()

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return what was reported; nothing where no check has reported anything."""
        try:
            runs = json.loads(path.read_text("utf-8"))
            ends = np.array([run[:2] for run in runs], np.int64).reshape(-1, 2)
            return cls(ends[:, 0], ends[:, 1], tuple(str(run[2]) for run in runs))
        except (FileNotFoundError, ValueError, TypeError, IndexError):
            return cls(np.empty(0, np.int64), np.empty(0, np.int64))

    def contain(self, starts: Int64s) -> Bools:
        """Return which of these periods were reported."""
        run = self._run_of(starts)
        inside: Bools = run >= 0
        inside[inside] = starts[inside] <= self.last_us[run[inside]]
        return inside

    def with_more(self, starts: Int64s, step_us: int, now: str) -> Self:
        """Return the report of these periods, in order: those that are new are reported ``now``, others are dropped."""
        known, run = self.contain(starts), self._run_of(starts)
        at = [self.at[place] if is_known else now for place, is_known in zip(run, known, strict=True)]
        runs = list[tuple[int, int, str]]()
        for start, when in zip(starts.tolist(), at, strict=True):
            if runs and runs[-1][2] == when and start - runs[-1][1] <= step_us:
                runs[-1] = (runs[-1][0], start, when)
            else:
                runs.append((start, start, when))
        ends = np.array([run[:2] for run in runs], np.int64).reshape(-1, 2)
        return type(self)(ends[:, 0], ends[:, 1], tuple(run[2] for run in runs))

    def write(self, path: Path) -> None:
        """Keep the report in place of the one before."""
        runs = zip(self.first_us.tolist(), self.last_us.tolist(), self.at, strict=True)
        write_text(path, json.dumps(list(runs)))

    def _run_of(self, starts: Int64s) -> Int64s:
        run: Int64s = np.searchsorted(self.first_us, starts, side="right") - 1
        return run
