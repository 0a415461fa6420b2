"""Count what the written rows are, by the rules that an ingest follows."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from lakehouse.simulator.faults import CONFLICT, KINDS, REASONS, is_usable
from lakehouse.simulator.form import ABSENT, Form
from lakehouse.simulator.timeline import Ints

_MISSING = (KINDS.index("nan"), KINDS.index("null"))


@dataclass(frozen=True)
class Written:
    """Every row in order of arrival: which generated row it shows, when it was received, what it is."""

    row: Ints
    received_us: Ints
    kind: Ints
    is_repeat: npt.NDArray[np.bool_]


def count(form: Form, columns: dict[str, Any], event_us: Ints, written: Written) -> dict[str, Any]:
    """Return the counted fields of a ``Truth``."""
    kinds = {
        name: int(np.sum((written.kind == code) & ~written.is_repeat)) for code, name in enumerate(KINDS)
    }
    kinds["repeat"] = int(written.is_repeat.sum())
    reasons = {
        reason: sum(kinds[k] for k, r in REASONS.items() if r == reason) for reason in REASONS.values()
    }
    accepted = is_usable(written.kind) & ~written.is_repeat
    times = event_us[written.row[accepted]]
    return {
        "received": len(written.row),
        "accepted": len(times),
        "quarantined": sum(reasons.values()),
        "duplicates": kinds["repeat"],
        "min_event_us": int(times.min()) if len(times) else None,
        "max_event_us": int(times.max()) if len(times) else None,
        "kinds": {name: number for name, number in kinds.items() if number},
        "reasons": {name: number for name, number in reasons.items() if number},
        **_lateness(event_us[written.row], written),
        **_measures(form, columns, written, accepted),
    }


def _lateness(event_us: Ints, written: Written) -> dict[str, int]:
    usable = is_usable(written.kind)
    newest = np.maximum.accumulate(np.where(usable, event_us, np.iinfo(np.int64).min))
    # Before the first usable row there is nothing to be behind of.
    behind = np.where(newest < event_us, 0, newest - event_us)
    late = (usable | (written.kind == CONFLICT)) & (behind > 0)
    return {"late": int(late.sum()), "max_lateness_us": int(behind[late].max(initial=0))}


def _measures(
    form: Form, columns: dict[str, Any], written: Written, accepted: npt.NDArray[np.bool_]
) -> dict[str, Any]:
    missing, sums = {}, {}
    spoiled = np.isin(written.kind, _MISSING)[accepted]
    for name, decimals in form.measures.items():
        values = columns[name][written.row[accepted]]
        absent = (values == ABSENT) | (spoiled if name == form.spoiled else False)
        missing[name] = int(absent.sum())
        sums[name] = str(Decimal(int(values[~absent].sum())).scaleb(-decimals))
    return {"missing": missing, "sums": sums}
