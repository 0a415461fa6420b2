"""Attacks on the web server, ten thousand requests of each kind, and a soak beside a thousand hostile clients."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from tests.faults.report import Progress
from tests.web.attack.attacks import ATTACKS
from tests.web.attack.soak import Soaked, soaked
from tests.web.attack.target import attacked
from tests.web.conftest import published

REQUESTS, QUICK_REQUESTS, EACH = 10_000, 100, 100
HOSTILE, HONEST, SECONDS = 1_000, 10, 60.0
QUICK_HOSTILE, QUICK_HONEST, QUICK_SECONDS = 40, 2, 2.0
# Asked by honest clients; an answer takes some milliseconds.
ASKED = "/latest/ask.json?stream=pair&measure=temp&agg=avg"


def run(quick: bool, progress: Progress) -> dict[str, Any]:
    """Make the requests, then hold a server of its own under fire."""
    requests = QUICK_REQUESTS if quick else REQUESTS
    tried, broken = 0, list[str]()
    with tempfile.TemporaryDirectory(prefix="tidemark-faults-") as name:
        with attacked(Path(name)) as target:
            rounds = [(attack, seed) for attack in ATTACKS.values() for seed in range(requests // EACH)]
            found = (attack(target, EACH, seed) for attack, seed in rounds)
            for one in progress(found, len(rounds)):
                tried, broken = tried + one.tried, broken + one.broken
        home = published(Path(name) / "soaked", "pair")
        size = (QUICK_HOSTILE, QUICK_HONEST, QUICK_SECONDS) if quick else (HOSTILE, HONEST, SECONDS)
        under = soaked(home.root, ASKED, *size)
    return {
        "tried": tried,
        "attempts": under.attempts,
        "quiet_p95_ms": under.quiet_p95_ms,
        "p95_ms": under.p95_ms,
        "broken": broken + faults_of(under, is_timed=not quick),
    }


def faults_of(found: Soaked, is_timed: bool) -> list[str]:
    """Return what is wrong with a soak; a short one says nothing of times."""
    wrong = []
    if found.failed or not found.answered:
        wrong.append(f"{found.failed} of {found.answered} honest requests failed")
    if found.descriptors[1] > found.descriptors[0] + 10:
        wrong.append(f"descriptors grew from {found.descriptors[0]} to {found.descriptors[1]}")
    if found.memory_mb[1] > found.memory_mb[0] + 200:
        wrong.append(f"memory grew from {found.memory_mb[0]:.0f} to {found.memory_mb[1]:.0f} MB")
    if is_timed and found.p95_ms > 2 * found.quiet_p95_ms:
        wrong.append(f"p95 of honest clients: {found.p95_ms} ms; in quiet {found.quiet_p95_ms} ms")
    return wrong
