"""Simulate one stream: rows on a timeline, faults, arrival, files in order of arrival, and the truth about them.

    schedule -> faults -> arrival -> copies -> order of arrival -> files -> truth

Files appear whole and never share a name: they are written beside the landing folder, then renamed into it.

Cost: O(rows log rows) time, about 150 bytes of memory per row, and the text of one piece of a file.
"""

import gzip
import re
import zlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from lakehouse.config.problems import ConfigError, Problem
from lakehouse.simulator import delays, faults
from lakehouse.simulator.arrays import integers
from lakehouse.simulator.flows import FLOWS
from lakehouse.simulator.form import Form, joined_bytes, lines
from lakehouse.simulator.plan import Plan
from lakehouse.simulator.sensors import SENSORS
from lakehouse.simulator.timeline import Ints
from lakehouse.simulator.truth import Truth, Written, count, read_truth, write_truth
from lakehouse.storage.atomic_files import replacing

FORMS = {form.stream: form for form in (SENSORS, FLOWS)}
FIRST_START_US = 1_767_225_600_000_000  # 2026-01-01
PIECE_ROWS = 250_000
_RESEND_MEAN_US, _RESEND_MAX_US = 5_000_000, 60_000_000
_BOM = b"\xef\xbb\xbf"


def simulate(plan: Plan, landing: Path) -> Truth:
    """Write the plan's files into ``landing/<stream>`` and return the truth of this call.

    The truth of all calls together is kept in ``landing/<stream>.truth.json``. Raises ConfigError when the plan
    cannot be carried out, with every problem.
    """
    if plan.stream not in FORMS:
        raise ConfigError("simulate", [Problem("stream", repr(plan.stream), f"one of {', '.join(FORMS)}")])
    plan.check()
    form, before = FORMS[plan.stream], read_truth(landing, plan.stream)
    start_us = _start(plan, before)
    rng = np.random.default_rng([plan.seed, before.calls if before else 0, zlib.crc32(plan.stream.encode())])
    timeline = form.timeline(rng, plan.rows, plan.duration_us, plan.sources, plan.faults.gaps, form.tick_us)
    columns = form.columns(rng, timeline, start_us, plan.sources)
    fates = faults.decide(rng, plan.rows, plan.faults)
    event_us = start_us + timeline.event_us
    written = _arrivals(rng, plan, form, event_us, fates)
    event_us = np.append(event_us, event_us[fates.contradicted])
    columns = {n: _contradicted(c, fates.contradicted, n == form.spoiled) for n, c in columns.items()}
    names = _write(plan, form, landing, columns, event_us, written)
    figures = count(form, columns, event_us, written)
    end_us = start_us + plan.duration_us
    truth = Truth(plan.stream, 1, end_us, names, withheld=timeline.withheld, **figures)
    write_truth(landing, before + truth if before else truth)
    return truth


def _start(plan: Plan, before: Truth | None) -> int:
    if before is None:
        return FIRST_START_US if plan.start_us is None else plan.start_us
    if plan.start_us is not None and plan.start_us < before.end_us:
        times = f"{_iso(plan.start_us)}, while earlier files reach to {_iso(before.end_us)}"
        expected = "a later start, none (go on in time), or another landing folder: rows would repeat"
        raise ConfigError(f"simulate {plan.stream}", [Problem("start", times, expected)])
    return before.end_us if plan.start_us is None else plan.start_us


def _iso(time_us: int) -> str:
    return datetime.fromtimestamp(time_us // 1_000_000, UTC).isoformat()


def _arrivals(
    rng: np.random.Generator, plan: Plan, form: Form, event_us: Ints, fates: faults.Fates
) -> Written:
    """Let rows arrive, copies of them some time later, and put all in order of arrival."""
    wait = delays.draw(rng, plan.delay, form.delays_ms, plan.rows, form.tick_us)
    if plan.faults.late is not None:
        usable = faults.is_usable(fates.kind)
        wait = delays.exactly_late(rng, event_us, wait, usable, plan.faults.late, form.tick_us)
    copies = np.concatenate([fates.repeated, fates.contradicted])
    resend = np.minimum(rng.exponential(_RESEND_MEAN_US, len(copies)), _RESEND_MAX_US).astype(np.int64)
    arrived = event_us + wait
    received = np.concatenate([arrived, arrived[copies] + (resend // form.tick_us + 1) * form.tick_us])
    row = np.concatenate(
        [np.arange(plan.rows), fates.repeated, plan.rows + np.arange(len(fates.contradicted))]
    )
    kind = np.concatenate(
        [fates.kind, fates.kind[fates.repeated], np.full_like(fates.contradicted, faults.CONFLICT)]
    )
    is_repeat = (np.arange(len(row)) >= plan.rows) & (kind != faults.CONFLICT)
    order = np.argsort(received, kind="stable")
    return Written(row[order], received[order], kind[order], is_repeat[order])


def _contradicted(column: Any, rows: Ints, is_changed: bool) -> Any:
    """Append the rows that contradict others: the same but for one measure."""
    if isinstance(column, pa.Array):
        return pa.concat_arrays([column, column.take(integers(rows))])
    return np.append(column, column[rows] + is_changed)


def _write(
    plan: Plan, form: Form, landing: Path, columns: dict[str, Any], event_us: Ints, written: Written
) -> tuple[str, ...]:
    folder = landing / plan.stream
    first = next_number(folder, plan.stream)
    names = []
    for number, places in enumerate(np.array_split(np.arange(len(written.row)), plan.files)):
        name = f"{plan.stream}-{first + number:06d}{form.suffix}{'.gz' if plan.gzip else ''}"
        mark = _BOM if number == 0 and plan.faults.dirt else b""
        write_file(folder, name, _pieces(form, mark, columns, event_us, written, places))
        names.append(name)
    return tuple(names)


def _pieces(
    form: Form, mark: bytes, columns: dict[str, Any], event_us: Ints, written: Written, places: Ints
) -> Iterator[bytes | memoryview]:
    yield mark + form.header
    for low in range(0, len(places), PIECE_ROWS):
        part = places[low : low + PIECE_ROWS]
        row, kind = written.row[part], written.kind[part]
        shown_us = event_us[row] - np.where(kind == faults.BAD_CLOCK, faults.CLOCK_BEHIND_US, 0)
        yield joined_bytes(lines(form, columns, row, shown_us, written.received_us[part], kind))


def next_number(folder: Path, stream: str) -> int:
    """Return the number of the next file, above every number that is taken."""
    pattern = re.compile(rf"^{re.escape(stream)}-(\d+)\.")
    taken = [int(match[1]) for path in folder.glob(f"{stream}-*") if (match := pattern.match(path.name))]
    return max(taken, default=0) + 1


def write_file(folder: Path, name: str, pieces: Iterable[bytes | memoryview]) -> None:
    """Write a file, compressed if its name ends in gz, so that readers see all of it or nothing."""
    with replacing(folder / name, beside=folder.parent / ".incoming") as file:
        if name.endswith(".gz"):
            # No name and no time inside, so that the same rows give the same bytes.
            with gzip.GzipFile(filename="", mode="wb", compresslevel=1, fileobj=file, mtime=0) as packed:
                packed.writelines(pieces)
        else:
            file.writelines(pieces)
