"""A process beside a service, started again whenever it ends, so that nothing that it does stops the service.

It ends with the service: by ``ending.leave``, and after a kill of the service by the end of its standard input, which
nobody else holds.
"""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence

log = logging.getLogger(__name__)
# How long to wait before a start after an end, longer each time; a process that ran so long begins with the first.
FIRST_WAIT_S, LONGEST_WAIT_S, GOOD_S = 1.0, 60.0, 60.0


def keep_running(name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
    """Run a command from a thread of this process, as long as this process lives."""
    arguments = (name, list(command), os.environ | environment)
    threading.Thread(target=_run_again, args=arguments, name=name, daemon=True).start()


def _run_again(name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
    wait_s = FIRST_WAIT_S
    while True:
        began = time.monotonic()
        with subprocess.Popen(command, stdin=subprocess.PIPE, env=environment) as child:
            code = child.wait()
        if time.monotonic() - began > GOOD_S:
            wait_s = FIRST_WAIT_S
        log.error("%s ended with code %d, is started again in %g s", name, code, wait_s)
        time.sleep(wait_s)
        wait_s = min(2 * wait_s, LONGEST_WAIT_S)


def end_with_input() -> None:
    """Have this process end, as by SIGTERM, when its standard input does."""

    def wait() -> None:
        while sys.stdin.buffer.read(1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="input", daemon=True).start()
