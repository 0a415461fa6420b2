"""Call the function of one DAG task in this process, as the task's own pod does.

python -m jobs.run_task ingest take.alpha --arguments '{"stream": "alpha", "params": {"config": null}}' --result FILE

If it is run again, or killed and run again, the tables are the same, because a task is a call of a job.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from jobs.run_dags import ORDER, WATCHING
from lakehouse.config.airflow.homes import airflow_home
from lakehouse.config.config_paths import config_file, given_home
from lakehouse.config.problems import Permanent
from lakehouse.service.ending import listen
from lakehouse.storage.control.outcomes import error_text


def function_of(dag: str, task: str) -> Callable[..., Any]:
    """Return the function of a task of a DAG, which its file or its id names.

    Raises LookupError if there is no such DAG or task, with those that exist.
    """
    dag = dag.rpartition("_")[2]
    if dag not in (*ORDER, *WATCHING):
        raise LookupError(f"no DAG {dag!r}; there are {', '.join((*ORDER, *WATCHING))}")
    loaded = getattr(import_module(f"dags.{dag}"), dag)(airflow_home(config_file(), given_home()))
    if not loaded.has_task(task):
        raise LookupError(f"no task {task!r} in the DAG {dag}; there are {', '.join(loaded.task_ids)}")
    function: Callable[..., Any] = loaded.get_task(task).python_callable
    return function


def main(argv: Sequence[str] | None = None) -> int:
    """Run the task that the command line names; return 0, 1 if it failed, or what the options say."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("dag")
    parser.add_argument("task")
    parser.add_argument("--arguments", type=json.loads, default={}, help="what it is called with, as JSON")
    parser.add_argument("--result", type=Path, help="where what it returns is written, as JSON")
    parser.add_argument("--skipped", type=int, default=0, help="exit code where there was nothing to do")
    parser.add_argument(
        "--permanent", type=int, default=1, help="exit code of an error that a retry meets again"
    )
    asked = parser.parse_args(argv)
    try:
        answer = json.dumps(function_of(asked.dag, asked.task)(**asked.arguments))
    except AirflowSkipException as reason:
        print(f"skipped: {reason}", flush=True)
        return int(asked.skipped)
    except Exception as error:
        is_ours = isinstance(error, AirflowFailException)
        print(f"{asked.dag} {asked.task}: {error if is_ours else error_text(error)}", file=sys.stderr)
        return int(asked.permanent) if is_ours or isinstance(error, Permanent) else 1
    if asked.result:
        asked.result.write_text(answer, encoding="utf-8")
    return 0


if __name__ == "__main__":
    # The first process of a container gets no signal that it does not handle.
    listen()
    raise SystemExit(main())
