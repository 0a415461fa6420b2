"""Plans of every kind for property tests."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from lakehouse.simulator.plan import DELAY_KINDS, Delay, Faults, Plan

HOUR_US = 3_600_000_000
_SHARES = st.sampled_from((0.0, 0.01, 0.1, 0.25))
FAULTS = st.builds(
    Faults,
    late=st.none() | st.sampled_from((0.0, 0.2, 0.9)),
    duplicates=_SHARES,
    conflicts=_SHARES,
    bad_clocks=_SHARES,
    dirt=_SHARES,
    gaps=st.sampled_from((0.0, 0.05, 0.5)),
)
DELAYS = st.builds(
    Delay,
    kind=st.sampled_from(DELAY_KINDS),
    mean_us=st.just(30_000_000),
    max_us=st.sampled_from((60_000_000, HOUR_US)),
)


def _fits(plan: Plan) -> bool:
    return plan.files <= plan.rows and not (plan.delay.kind == "none" and plan.faults.late)


def plans(**fixed: Any) -> st.SearchStrategy[Plan]:
    """Return small plans that can be carried out, some of their fields fixed."""
    fields: dict[str, Any] = {
        "stream": st.sampled_from(("telemetry", "flows")),
        "rows": st.integers(1, 400),
        "duration_us": st.just(HOUR_US),
        "sources": st.integers(1, 12),
        "files": st.integers(1, 5),
        "seed": st.integers(0, 1000),
        "gzip": st.booleans(),
        "delay": DELAYS,
        "faults": FAULTS,
    }
    return st.builds(Plan, **(fields | {name: st.just(value) for name, value in fixed.items()})).filter(_fits)
