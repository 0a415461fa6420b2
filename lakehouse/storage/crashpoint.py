"""Named places where a run can be made to die, so that tests can prove that dying there loses nothing.

``TIDEMARK_CRASH_AT=ingest.raw-appended`` kills this process with SIGKILL the first time it passes that place;
``ingest.raw-appended:3`` the third time. Unset, a crash point is one dictionary look-up, and an audit event for whoever
listens.
"""

import os
import signal
import sys
from collections import Counter

# Crash points count how often this process passed them.
_passed: Counter[str] = Counter()


def crash_point(name: str) -> None:
    """Die here when the environment asks for it."""
    sys.audit("tidemark.crash_point", name)
    asked, _, count = os.environ.get("TIDEMARK_CRASH_AT", "").partition(":")
    if asked != name:
        return
    _passed[name] += 1
    if _passed[name] == int(count or 1):
        os.kill(os.getpid(), signal.SIGKILL)
