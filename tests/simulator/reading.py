"""Read simulated files back, record by record, and judge each by the rules that an ingest follows.

The yardstick of the simulator's truth: it knows nothing of how the files were made, and is slow on purpose.
"""

from __future__ import annotations

import gzip
import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from lakehouse.simulator.form import Form

CLOCK_BEHIND_US = 30 * 86_400_000_000


@dataclass
class Seen:
    """What reading every line of a stream's files found."""

    received: int = 0
    accepted: int = 0
    duplicates: int = 0
    late: int = 0
    max_lateness_us: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    missing: Counter[str] = field(default_factory=Counter)
    sums: dict[str, Decimal] = field(default_factory=dict)
    events_us: list[int] = field(default_factory=list)
    arrivals_us: list[int] = field(default_factory=list)
    payloads: dict[Any, Any] = field(default_factory=dict)
    identities: set[Any] = field(default_factory=set)

    def note(self, form: Form, record: dict[str, Any]) -> None:
        """Judge one record that could be read."""
        event, identity = record["event_us"], record["identity"]
        if self.payloads.setdefault(identity, record["payload"]) != record["payload"]:
            self.reasons["conflict"] += 1
            return
        if identity in self.identities:
            self.duplicates += 1
            return
        self.identities.add(identity)
        self.accepted += 1
        behind = max(self.events_us, default=event) - event
        self.late += behind > 0
        self.max_lateness_us = max(self.max_lateness_us, behind)
        self.events_us.append(event)
        for measure in form.measures:
            value = record["measures"][measure]
            if value is None:
                self.missing[measure] += 1
            else:
                self.sums[measure] = self.sums.get(measure, Decimal(0)) + value


def lines_of(path: Path) -> list[bytes]:
    """Return a file's lines without byte order mark and header."""
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    assert lines.pop() == b""
    return lines[1:] if ".csv" in path.name else lines


def files_of(landing: Path, stream: str) -> list[Path]:
    """Return a stream's files in order of their names."""
    return sorted((landing / stream).iterdir())


def read_back(landing: Path, form: Form) -> Seen:
    """Read every file of a stream in order."""
    seen = Seen()
    for path in files_of(landing, form.stream):
        for line in lines_of(path):
            seen.received += 1
            record = _record(form, line)
            if isinstance(record, str):
                seen.reasons[record] += 1
                continue
            seen.arrivals_us.append(record["arrival_us"])
            if record["arrival_us"] - record["event_us"] > CLOCK_BEHIND_US:
                seen.reasons["clock"] += 1
                continue
            seen.note(form, record)
    return seen


def _record(form: Form, line: bytes) -> dict[str, Any] | str:
    """Return a record, or the reason why it is none."""
    try:
        text = line.decode()
    except UnicodeDecodeError:
        return "bad_utf8"
    try:
        fields = _from_json(text) if form.suffix == ".ndjson" else _from_csv(form, text)
    except ValueError:
        return "malformed"
    unit = 1_000 if form.suffix == ".ndjson" else 1_000_000
    if fields["ts"] is None:
        return "no_event_time"
    measures = {name: _number(fields[name]) for name in form.measures}
    if "wrong" in measures.values():
        return "bad_value"
    identity = fields.get("uid") or (fields["device"], fields["ts"])
    payload = {name: value for name, value in fields.items() if name != "received"}
    return {
        "event_us": int(Decimal(fields["ts"]) * unit),
        "arrival_us": int(Decimal(fields["received"]) * unit),
        "identity": identity,
        "payload": {name: str(value) for name, value in payload.items()},
        "measures": measures,
    }


def _from_json(text: str) -> dict[str, Any]:
    fields = json.loads(text, parse_float=Decimal)
    if not isinstance(fields, dict):
        raise ValueError(text)
    return fields


def _from_csv(form: Form, text: str) -> dict[str, Any]:
    names = form.header.decode().strip().split(",")
    fields: Iterator[str | None] = (None if part in ("NA", "") else part for part in text.split(","))
    return dict(zip(names, fields, strict=True))


def _number(value: Any) -> Decimal | str | None:
    try:
        number = None if value is None else Decimal(str(value))
    except ArithmeticError:
        return "wrong"
    return number if number is not None and math.isfinite(number) else None
