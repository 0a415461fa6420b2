"""A post that says that a scheduled run has failed, to the address that alarms are posted to."""

import json
import logging
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from jobs.running.scheduled import configured
from lakehouse.settings import Settings
from lakehouse.storage.control.outcomes import read_all
from lakehouse.web.events.posting import post, signed

log = logging.getLogger(__name__)
TIMEOUT_S = 10.0


def post_failed_run(
    params: Mapping[str, Any], dag: str, run: str, reason: str, task: str | None, began: datetime | None
) -> None:
    """Post the failure of a run, with the errors of the jobs that have failed since it began.

    Nothing is posted without an address in ``[alerts]``. One of a run that is posted again has the same identity.
    """
    settings = configured(params)
    alerts = settings.alerts
    if alerts.url is None:
        return
    errors = _errors_since(settings, began)
    failed = {
        "dag": dag,
        "run": run,
        "reason": reason,
        "task": task,
        "home": str(settings.home),
        "failed": errors,
    }
    body = json.dumps(failed, ensure_ascii=False).encode()
    secret = alerts.secret.get_secret_value().encode() if alerts.secret else b""
    post(signed(alerts.url, secret, f"{dag}:{run}", body), TIMEOUT_S)
    # Nobody learns the address from a log: that of a webhook may be its secret.
    log.info("posted that %s has failed", run)


def _errors_since(settings: Settings, began: datetime | None) -> list[dict[str, str]]:
    """Return which jobs have failed, and how, as far as this process can read the home."""
    try:
        outcomes = read_all(settings.layout)
    except Exception as error:
        log.warning("errors of jobs could not be read: %r", error)
        return []
    return [
        {"job": outcome["job"], "of": outcome["stream"], "error": outcome["error"]}
        for outcome in outcomes
        if not outcome["ok"] and (began is None or datetime.fromisoformat(outcome["ended"]) >= began)
    ]
