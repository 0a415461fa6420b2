"""Tasks of DAGs that run at once on one home, each in a process of its own: ``python -m tests.dags.at_once < STEPS``.

STEPS is JSON: a list of steps, each a list of tasks, each the words of ``python -m jobs.run_task``. Tasks of a step
begin at the same moment, in processes that are forked with everything imported; those of the next when all have ended.
A first word ``NAME=VALUE`` is a variable of the task's process.
Prints one line of exit codes for each step.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module

from jobs import run_dags, run_task

IMPORTED = (
    "tests.support.preloaded",
    "great_expectations",
    "quality.checkpoint",
    "jobs.check_quality",
    "jobs.check_queries",
)


def at_once(tasks: list[list[str]]) -> list[int]:
    """Return the exit code of each task."""
    reading, writing = os.pipe()
    children = []
    for words in tasks:
        if (child := os.fork()) == 0:
            os.close(writing)
            os.read(reading, 1)
            code = 1
            try:
                if "=" in words[0]:
                    name, _, value = words.pop(0).partition("=")
                    os.environ[name] = value
                code = run_task.main(words)
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        children.append(child)
    # The end of the file is what all of them wait for.
    os.close(writing)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    os.close(reading)
    return codes


def main() -> int:
    """Run the steps that stdin names."""
    for module in (*IMPORTED, *(f"dags.{name}" for name in run_dags.ORDER)):
        import_module(module)
    for step in json.load(sys.stdin):
        print("codes", json.dumps(at_once(step)), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
