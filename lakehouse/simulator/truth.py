"""True counts of a stream's simulated files, over all calls: the yardstick of an ingest's ledger.

It lies beside the landing folder, as ``<stream>.truth.json``, where no source pattern finds it.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lakehouse.simulator.faults import KINDS, REASONS, is_usable
from lakehouse.simulator.form import ABSENT, Form
from lakehouse.simulator.timeline import Ints
from lakehouse.storage.atomic_files import write_json

_ADDED = ("calls", "received", "accepted", "quarantined", "duplicates", "late", "withheld")
_COUNTED = ("kinds", "reasons", "missing")
_MISSING = (KINDS.index("nan"), KINDS.index("null"))


@dataclass(frozen=True)
class Truth:
    """Counts of rows (a header is none), and sums of measures over accepted rows as exact decimals.

    ``received`` = ``accepted`` + ``quarantined`` + ``duplicates``. ``late`` counts rows behind the newest accepted
    event time before them, file by file and line by line. As in a ledger these are accepted rows, duplicates and
    conflicts, but no other quarantined rows: their time cannot be trusted. ``withheld`` rows fell into gaps and were
    never written. ``end_us`` is where the next call goes on.
    """

    stream: str
    calls: int
    end_us: int
    files: tuple[str, ...]
    received: int
    accepted: int
    quarantined: int
    duplicates: int
    late: int
    max_lateness_us: int
    withheld: int
    min_event_us: int | None
    max_event_us: int | None
    kinds: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)
    missing: dict[str, int] = field(default_factory=dict)
    sums: dict[str, str] = field(default_factory=dict)

    def __add__(self, later: Truth) -> Truth:
        """Return the truth of both calls' files together."""
        both: dict[str, Any] = {name: getattr(self, name) + getattr(later, name) for name in _ADDED}
        both |= {name: _counts(getattr(self, name), getattr(later, name)) for name in _COUNTED}
        sums = {
            name: str(Decimal(self.sums.get(name, "0")) + Decimal(text)) for name, text in later.sums.items()
        }
        return Truth(
            stream=self.stream,
            end_us=max(self.end_us, later.end_us),
            files=self.files + later.files,
            max_lateness_us=max(self.max_lateness_us, later.max_lateness_us),
            min_event_us=_of(min, self.min_event_us, later.min_event_us),
            max_event_us=_of(max, self.max_event_us, later.max_event_us),
            sums=sums,
            **both,
        )


def truth_file(landing: Path, stream: str) -> Path:
    """Return where a stream's truth is kept."""
    return landing / f"{stream}.truth.json"


def read_truth(landing: Path, stream: str) -> Truth | None:
    """Return what earlier calls wrote, None before the first one."""
    path = truth_file(landing, stream)
    if not path.is_file():
        return None
    content = json.loads(path.read_text(encoding="utf-8"))
    return Truth(**(content | {"files": tuple(content["files"])}))


def write_truth(landing: Path, truth: Truth) -> None:
    """Replace a stream's truth as a whole."""
    write_json(truth_file(landing, truth.stream), asdict(truth), indent=1)


def _of(choose: Any, *values: int | None) -> int | None:
    known = [value for value in values if value is not None]
    return choose(known) if known else None


def _counts(first: dict[str, int], second: dict[str, int]) -> dict[str, int]:
    names = dict.fromkeys([*first, *second])
    both = Counter(first) + Counter(second)
    return {name: both[name] for name in names}


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
    late = usable & ~written.is_repeat & (behind > 0)
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
