"""The clock of the machine jumps by a day, forwards or back, between runs of the jobs or in the midst of one.

A library that is put before the C library's tells Python and all compiled code another time of day. It is compiled
when the part runs: without a compiler of C the part says so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.faults.lab import Lab, Verdict, labs_for
from tests.faults.report import Progress

DAY_S = 86_400
# Of runs one after the other: by how many days the clock is wrong, and after how many looks at it, since when.
CASES = tuple(
    (first, second)
    for first in ((1, 0), (-1, 0), (1, 300), (-1, 300))
    for second in ((1, 100), (-1, 0), (0, 0))
)
QUICK = ((1, 300), (-1, 0))
SOURCE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
static long shift(void) {
    static long looks, days, after, known;
    if (!known) {
        days = atol(getenv("FAULT_DAYS")), after = atol(getenv("FAULT_AFTER")), known = 1;
    }
    return __atomic_add_fetch(&looks, 1, __ATOMIC_RELAXED) > after ? days * 86400 : 0;
}
int clock_gettime(clockid_t clock, struct timespec *found) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int code = real(clock, found);
    if (clock == CLOCK_REALTIME) found->tv_sec += shift();
    return code;
}
int gettimeofday(struct timeval *restrict found, void *restrict zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    found->tv_sec = now.tv_sec, found->tv_usec = now.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *found) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (found) *found = now.tv_sec;
    return now.tv_sec;
}
"""
Wrong = tuple[int, int]
Case = tuple[str, tuple[Wrong, ...]]


def run(quick: bool, progress: Progress) -> dict[str, Any]:
    """Run the jobs under wrong clocks, then under the right one."""
    if shutil.which("cc") is None:
        return {"tried": 0, "skipped": "no compiler of C", "broken": []}
    broken = []
    with tempfile.TemporaryDirectory(prefix="tidemark-faults-") as name, labs_for(quick) as labs:
        library = _compiled(Path(name))
        cases = [(library, runs) for runs in ((QUICK,) if quick else CASES)]
        for (_, runs), verdict in progress(labs.tried(judged, cases), len(cases)):
            broken += [f"days and looks {runs}: {verdict}"] if verdict else []
    return {"tried": len(cases), "broken": sorted(broken)}


def judged(lab: Lab, case: Case) -> Verdict:
    """Run the jobs once under each wrong clock; say what fails, or what the tables lack afterwards."""
    library, runs = case
    for days, after in runs:
        told = {"LD_PRELOAD": library, "FAULT_DAYS": str(days), "FAULT_AFTER": str(after)}
        command = [sys.executable, "-m", "tests.faults.subject", str(lab.config)]
        ended = subprocess.run(command, env=os.environ | told, capture_output=True, text=True, check=False)
        if ended.returncode:
            return f"with a clock {days} days wrong the jobs fail: {ended.stderr[-500:]}"
    return lab.recovered()


def _compiled(folder: Path) -> str:
    source, library = folder / "clock.c", folder / "clock.so"
    source.write_text(SOURCE, encoding="utf-8")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True)
    # The library is one that works: a process that has it sees another day.
    told = {"LD_PRELOAD": str(library), "FAULT_DAYS": "1000", "FAULT_AFTER": "0"}
    look = [sys.executable, "-c", "import time; print(time.time())"]
    seen, right = (
        float(subprocess.run(look, env=os.environ | env, capture_output=True, check=True).stdout)
        for env in (told, {})
    )
    assert abs(seen - right - 1000 * DAY_S) < 60, f"the clock was moved by {seen - right} s"
    return str(library)
