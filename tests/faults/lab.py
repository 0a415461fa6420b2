"""Laboratory of faults: a lakehouse that is put back before each attempt, and what it holds undisturbed.

Attempts are shared out to as many processes as the machine has cores, each with a lakehouse of its own, always in the
same folder, since tables name the files that their rows came from.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

from tests.faults import forked, subject
from tests.faults.forked import AtStep, Ended, attempt

Case = TypeVar("Case")
# What breaks is told as a sentence, what does not as nothing.
Verdict = str
# What lands after the base was made: rows that come too late for what was answered, and new ones, which alone are held
# and answered online; and after the jobs took these.
NEW_PARTS, LATER_PART = (1, 3), 4


@dataclass(frozen=True)
class Lab:
    """A lakehouse at ``config`` with rows that no job has taken yet.

    ``steps``: the changes of files that the jobs make over them, in order. ``expected``: what the tables hold once the
    jobs have also taken what lands after that, undisturbed: a state that is wrong would show in it.
    """

    folder: Path
    config: Path
    expected: subject.Content
    steps: tuple[str, ...]

    @classmethod
    def made(cls, folder: Path) -> Lab:
        """Make one below a folder."""
        lake, kept = folder / "lake", folder / "kept"
        done(attempt(lambda: subject.made(lake)))
        for part in NEW_PARTS:
            subject.land(lake, part)
        shutil.copytree(lake, kept)
        config = lake / "tidemark.toml"
        found = attempt(lambda: subject.run_jobs(config), lake)
        done(found)
        return cls(folder, config, done(attempt(partial(gone_on, config))), found.steps)

    def restore(self) -> None:
        """Put the lakehouse back as it was before the jobs ran."""
        shutil.rmtree(self.config.parent, ignore_errors=True)
        shutil.copytree(self.folder / "kept", self.config.parent)

    def run(self, at_step: AtStep) -> Ended:
        """Run all jobs in a process of their own in which steps can fail."""
        return attempt(lambda: subject.run_jobs(self.config), self.config.parent, at_step)

    def recovered(self) -> Verdict:
        """Run all jobs undisturbed, twice; say how tables differ from those never disturbed, or hold rows twice."""
        again = attempt(lambda: subject.run_jobs(self.config))
        if again.error:
            return f"the jobs fail after it: {again.error}"
        found = attempt(partial(gone_on, self.config))
        return found.error or differences(self.expected, found.result) or rows_twice(self.config)


def gone_on(config: Path) -> subject.Content:
    """Let some more rows land, run all jobs and return what the tables hold."""
    subject.land(config.parent, LATER_PART)
    subject.run_jobs(config)
    return subject.content(config)


def done(ended: Ended) -> subject.Content:
    """Return the result of an attempt that must not fail.

    Raises:
        RuntimeError: with its error.
    """
    if ended.error or ended.is_killed:
        raise RuntimeError(ended.error or "killed")
    result: subject.Content = ended.result
    return result


def differences(expected: subject.Content, found: subject.Content) -> Verdict:
    """Say which tables differ."""
    wrong = [
        f"{name}: {found.get(name)}, not {told}" for name, told in expected.items() if told != found.get(name)
    ]
    return "; ".join(wrong)


def rows_twice(config: Path) -> Verdict:
    """Say which tables of queries hold rows twice."""
    found = attempt(partial(subject.rows_twice, config))
    return found.error or "; ".join(found.result)


class Labs:
    """Laboratories of as many processes as the machine has cores; of one, if it is to be ``quick``."""

    def __init__(self, quick: bool) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="tidemark-faults-")
        # A fork of this process would have its threads half.
        spawn = get_context("spawn")
        self._pool = ProcessPoolExecutor(1 if quick else os.cpu_count(), spawn, _begin, (self._folder.name,))

    def __enter__(self) -> Labs:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._folder.cleanup()

    def of_one(self, told: Callable[[Lab], Case]) -> Case:
        """Return what one of the laboratories tells of itself."""
        return self._pool.submit(_told, told).result()

    def steps(self) -> tuple[str, ...]:
        """Return the changes of files that the jobs make over what has landed, in order."""
        return self.of_one(attrgetter("steps"))

    def tried(
        self, judge: Callable[[Lab, Case], Verdict], cases: Sequence[Case]
    ) -> Iterator[tuple[Case, Verdict]]:
        """Yield each case with its verdict, as they come; an attempt that fails in itself is a verdict too."""
        waiting = {self._pool.submit(_judged, judge, case): case for case in cases}
        for each in as_completed(waiting):
            yield waiting[each], each.result()


_LAB: list[Lab] = []
_SHARED: list[Labs] = []


@contextmanager
def shared_labs(quick: bool) -> Iterator[None]:
    """Let all parts that are run meanwhile use the same laboratories: making one takes as long as some attempts."""
    with Labs(quick) as labs:
        _SHARED.append(labs)
        try:
            yield
        finally:
            _SHARED.clear()


@contextmanager
def labs_for(quick: bool) -> Iterator[Labs]:
    """Give laboratories for a part: those that are shared, or its own."""
    if _SHARED:
        yield _SHARED[0]
    else:
        with Labs(quick) as labs:
            yield labs


def import_jobs() -> None:
    """Do what jobs do first, once for all processes that are forked from this one."""
    import tests.support.preloaded  # noqa: F401


def _begin(parent: str) -> None:
    import_jobs()
    _LAB.append(Lab.made(Path(tempfile.mkdtemp(dir=parent))))


def _told(told: Callable[[Lab], Case]) -> Case:
    _LAB[0].restore()
    return told(_LAB[0])


def _judged(judge: Callable[[Lab, Case], Verdict], case: Case) -> Verdict:
    lab = _LAB[0]
    lab.restore()
    try:
        return judge(lab, case)
    except forked.Hung as hung:
        return str(hung)
    except Exception:
        return traceback.format_exc(limit=-3)
