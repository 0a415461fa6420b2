"""Faults of tasks that write parts, in the Pythons of workers, which import this file when they start.

The first attempt of a stage that passes the crash point FAULTY_POINT dies, or sleeps for long; in every second stage
the one or the other. The folder FAULTY_TASKS gets ``STAGE.died`` or ``STAGE.slept``, and ``STAGE.ATTEMPT.written`` of
each attempt that has written a part.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

_SLEEPS_S = 8.0


def _fault(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "tidemark.crash_point" or arguments != (os.environ["FAULTY_POINT"],):
        return
    from pyspark import TaskContext

    context, folder = TaskContext.get(), Path(os.environ["FAULTY_TASKS"])
    if context is None:
        return
    stage = context.stageId()
    (folder / f"{stage}.{context.taskAttemptId()}.written").touch()
    with suppress(FileExistsError):
        (folder / f"{stage}.first").touch(exist_ok=False)
        fault = ("died", "slept")[len(list(folder.glob("*.first"))) % 2]
        (folder / f"{stage}.{fault}").touch()
        if fault == "died":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(_SLEEPS_S)


if "FAULTY_TASKS" in os.environ:
    sys.addaudithook(_fault)
