"""Airflow's home and settings, the same for one run in process and for the standing service.

Everything is under ``<home>/airflow``: metadata in one SQLite file, logs, and a secret that its processes share.
Airflow reads its settings when it is first imported, so they are in the environment before that.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from unittest.mock import patch

from lakehouse.settings import Settings
from lakehouse.storage.control.lease import lease
from lakehouse.storage.ownership import kept_secret

DAGS = Path(__file__).resolve().parent.parent / "dags"
# Making the metadata takes some 15 s on an idle machine.
PREPARED_WITHIN_S = 180.0
# What a library of Airflow's API loads where it is installed; the API is FastAPI's, and never asks for these.
UNUSED = ("svcs.aiohttp", "svcs.flask")


def environment(settings: Settings) -> dict[str, str]:
    """Return the variables that make Airflow, and the jobs that its tasks run, use this configuration and home."""
    home = settings.layout.airflow
    secret = kept_secret(home / "secret")
    variables = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW_CONFIG": str(home / "airflow.cfg"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        # Each task that needs Spark starts a JVM of its own; more of them at once only wait for each other.
        "AIRFLOW__CORE__PARALLELISM": "2",
        # One task waits beside two that run: the first to be started of more is that of most weight.
        "AIRFLOW__CORE__DEFAULT_POOL_TASK_SLOT_COUNT": "3",
        "AIRFLOW__CORE__MP_START_METHOD": "spawn",
        # Tasks of a scheduler that was ended hold their streams until one after it looks for them.
        "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "30",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(home / "logs"),
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "AIRFLOW__API_AUTH__JWT_SECRET": secret,
        "AIRFLOW__API__SECRET_KEY": secret,
        "TIDEMARK_HOME": str(settings.home),
        # Its DAGs are those of this home alone.
        "TIDEMARK_CONFIGS": "",
    }
    return variables | ({"TIDEMARK_CONFIG": str(settings.config)} if settings.config else {})


@contextmanager
def airflow_environment(settings: Settings) -> Iterator[None]:
    """Let this process's Airflow use the home during the block, its metadata made where there are none.

    Takes 4 s the first time in a process, and 2 s more for a new home. The variables are put back at the end.
    """
    for name in UNUSED:
        # Python's way to say that there is no such module.
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]
    with patch.dict(os.environ, environment(settings)):
        from airflow import settings as airflow
        from airflow.utils import db

        if os.environ["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] != airflow.SQL_ALCHEMY_CONN:
            airflow.dispose_orm(do_log=False)
            airflow.configure_vars()
            airflow.configure_orm()
        with preparing_metadata(settings) as is_needed:
            if is_needed:
                db.initdb()
        yield


@contextmanager
def preparing_metadata(settings: Settings) -> Iterator[bool]:
    """Tell whether the home's metadata are still to be made to fit the installed Airflow, which the block then does.

    Another process that needs them waits for it.
    """
    home = settings.layout.airflow
    mark = home / f"migrated-{version('apache-airflow')}"
    if mark.exists():
        yield False
        return
    with lease(settings.layout, home, PREPARED_WITHIN_S):
        is_needed = not mark.exists()
        yield is_needed
        if is_needed:
            mark.touch()
