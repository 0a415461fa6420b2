"""Check that the service of a home is not stalled, and fail if it is. Needs no Spark; changes nothing."""

import json
import sys
from collections.abc import Sequence
from typing import Any

from jobs.running.command import arguments_of
from lakehouse.config.config_paths import home_folder
from lakehouse.settings import Settings
from lakehouse.storage.heartbeats import OLD_S, service_heartbeat
from lakehouse.storage.layout import Home


class ServiceStalled(RuntimeError):
    """A service was started on this home and not stopped, but writes no heartbeat any more."""


def run(settings: Settings, older_than_s: float = OLD_S) -> dict[str, Any]:
    """Return the state of the home's service and the age of its heartbeat; ``none`` if no service runs.

    Raises ServiceStalled if the heartbeat is older than ``older_than_s``, or its process has ended without a stop.
    """
    return _look(settings.layout, older_than_s)


def _look(layout: Home, older_than_s: float) -> dict[str, Any]:
    heartbeat = service_heartbeat(layout)
    if heartbeat is None or (heartbeat["state"] == "stopped" and not heartbeat["is_alive"]):
        return {"state": "none", "age_s": None}
    if heartbeat["age_s"] > older_than_s:
        how = (
            "its process is alive and stands still"
            if heartbeat["is_alive"]
            else "its process has gone without a stop"
        )
        raise ServiceStalled(
            f"{layout.root}: the last heartbeat of `tidemark serve` (process {heartbeat.get('pid')}) was "
            f"{heartbeat['age_s']:.0f} s ago, expected at most {older_than_s:.0f} s; "
            f"{how}: look at its log and start it again"
        )
    failing = [f"{task['job']} {task['name']}" for task in heartbeat.get("tasks", []) if task["failures"]]
    return {"state": heartbeat["state"], "age_s": heartbeat["age_s"], "failing": failing}


def main(argv: Sequence[str] | None = None) -> int:
    """Check once, for a container's health check: 0 if a service runs, 1 if it is stalled or there is none."""
    asked = arguments_of(run, argv)
    try:
        service = _look(Home(home_folder(asked.home, asked.config)), OLD_S)
    except ServiceStalled as failure:
        print(failure, file=sys.stderr)
        return 1
    print(json.dumps(service))
    return int(service["state"] == "none")


if __name__ == "__main__":
    raise SystemExit(main())
