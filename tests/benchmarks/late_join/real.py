"""Real disorder: messages over a mobile network, connections of an office, radio frames, players on a pitch.

| set | left | right | condition | w |
| --- | --- | --- | --- | --- |
| ooo-umts | devices with an odd number | the others | same second digit of the message's number | 0.5 s |
| zeek-m57-conn | connections of one source | of the others | same destination | 60 s |
| lorawan-sensors | frames of an odd counter | of an even one | none | 10 min |
| soccer-gnss | three players | three others | within 5 m; delays drawn as in D1 | 2 s |

Periods are 60 s, an hour for connections and a day for frames, sliding by a sixtieth. Sets that are absent are skipped.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lakehouse.algorithms.late_join.conditions import Distance, Equality
from lakehouse.algorithms.late_join.contract import Batch
from tests.benchmarks import page
from tests.benchmarks.late_join.run import METHODS, Case, case_of, misses, periods, run
from tests.benchmarks.late_join.streams import SECOND, disorder

REAL = Path(__file__).parents[4] / "shared" / "data"
HOUR, DAY = 3600 * SECOND, 86_400 * SECOND
RECALLS = (0.95, 0.99)


def umts(name: str) -> Case:
    """One session of messages; phones' clocks are synchronised, file order is arrival order."""
    rows = pd.read_csv(REAL / "ooo-umts" / f"{name}.csv.gz", sep=";")
    times = rows[["S.Client.Detection.Time", "S.Message.received.time.ms"]].to_numpy(np.int64).T * 1000
    device, message = rows["S.Device.ID"], rows["S.Message.ID"].to_numpy(np.int64)
    side = pd.factorize(device)[0] % 2
    batch = Batch.of(side, times[0], arrival_us=times[1], key=message // 10 % 10)
    return case_of(batch, Equality(), SECOND // 2, 60 * SECOND, SECOND)


def zeek() -> Case:
    """A day of connections, written when each ends; the time is its start."""
    with gzip.open(REAL / "zeek-m57-conn" / "conn.log.gz", "rt") as lines:
        rows = [line.rstrip("\n").split("\t") for line in lines if not line.startswith("#")]
    event = np.array([round(float(row[0]) * 1e6) for row in rows], np.int64)
    source, target = (pd.factorize(np.array([row[column] for row in rows], object))[0] for column in (2, 4))
    batch = Batch.of(source % 2, event, arrival_us=np.maximum.accumulate(event), key=target)
    return case_of(batch, Equality(), 60 * SECOND, HOUR, 60 * SECOND)


def lorawan() -> Case:
    """Frames of three field testers; event time is the network's reception."""
    with gzip.open(REAL / "lorawan-sensors" / "FTD_0018B20000020.ndjson.gz", "rt") as lines:
        frames = [json.loads(line) for line in lines]
    kept = [frame for frame in frames if frame.get("reported_at") and frame.get("_timestamp")]
    event, arrival = (
        np.array([int(frame[name]) * 1000 for frame in kept], np.int64)
        for name in ("reported_at", "_timestamp")
    )
    side = np.array([int(frame.get("fcnt") or 0) % 2 for frame in kept])
    return case_of(Batch.of(side, event, arrival_us=arrival), Equality(), 600 * SECOND, DAY, DAY // 60)


def players() -> Case:
    """Positions of six players, delayed by a jitter and by silences, as no arrival was recorded."""
    parts = []
    for number in range(1, 7):
        rows = pd.read_csv(REAL / "soccer-gnss" / f"U18_ID{number}.csv.gz")
        rows.columns = rows.columns.str.strip()
        metres = (
            rows["Longitude"] * np.cos(np.radians(rows["Latitude"].mean())) * 111_320,
            rows["Latitude"] * 110_574,
        )
        parts.append(
            pd.DataFrame({"at": rows["Timestamp"] * 86_400, "x": metres[0], "y": metres[1], "player": number})
        )
    every = pd.concat(parts).dropna().sort_values("at", kind="stable")
    rng = np.random.default_rng(5)
    event = np.round(every["at"].to_numpy() * 1e6).astype(np.int64)
    late = np.where(
        rng.random(len(event)) < 0.01,
        0.5 * (1 + rng.pareto(1.2, len(event))),
        rng.exponential(0.03, len(event)),
    )
    arrival = event + (np.minimum(late, 142.0) * SECOND).astype(np.int64)
    order = np.argsort(arrival, kind="stable")
    side, places = every["player"].to_numpy() % 2, every[["x", "y"]].to_numpy()
    batch = Batch.of(side[order], event[order], arrival_us=arrival[order], row=order, numbers=places[order])
    return case_of(batch, Distance(5.0), 2 * SECOND, 60 * SECOND, SECOND)


SETS: dict[str, Callable[[], Case]] = {
    "ooo-umts d-1": lambda: umts("d-1"),
    "ooo-umts d-2": lambda: umts("d-2"),
    "ooo-umts d-3": lambda: umts("d-3"),
    "zeek-m57-conn": zeek,
    "lorawan-sensors": lorawan,
    "soccer-gnss": players,
}


def figures(quick: bool) -> dict[str, Any]:
    """Return, by set and recall, the periods scored and met, and the rows held against MP-K-slack."""
    found: dict[str, Any] = {"real_periods": {}, "real_periods_met": {}, "real_memory_ratio_to_k_slack": {}}
    found["real_skipped"] = {
        name: f"absent beside this checkout: ../shared/data/{name.split()[0]}"
        for name in SETS
        if not (REAL / name.split()[0]).is_dir()
    }
    rows: list[list[Any]] = []
    missed: list[list[Any]] = []
    for name in SETS:
        if name in found["real_skipped"] or (quick and name == "soccer-gnss"):
            continue
        case = SETS[name]()
        for recall in RECALLS:
            _measure(name, case, recall, quick, found, rows, missed)
    if not quick:
        _write(sorted(rows), sorted(missed))
    return found


def _measure(
    name: str,
    case: Case,
    recall: float,
    quick: bool,
    found: dict[str, Any],
    rows: list[Any],
    missed: list[Any],
) -> None:
    methods = ("needed slack", "MP-K-slack") if quick else tuple(METHODS)
    runs = {method: run(case, METHODS[method](case, recall)) for method in methods}
    key, ours = f"{name}_q{recall:g}", runs["needed slack"]
    met, scored = periods(case, ours).met(recall)
    found["real_periods"][key], found["real_periods_met"][key] = scored, met
    ratio = ours.mean_held / max(runs["MP-K-slack"].mean_held, 1)
    found["real_memory_ratio_to_k_slack"][key] = round(ratio, 4)
    for method, each in runs.items():
        met, scored = periods(case, each).met(recall)
        held = [each.mean_held, each.peak_held, each.logged_share]
        rows.append([name, recall, method, scored, met, each.mean_wait_s, *held])
    missed += [[name, recall, *row] for row in misses(case, ours, recall)]


def _write(rows: list[list[Any]], missed: list[list[Any]]) -> None:
    late = [[name, *disorder(SETS[name]().batch)] for name in sorted({row[0] for row in rows})]
    heads = ["set", "recall", "method", "periods", "met", "mean wait s", "mean held", "peak held", "logged"]
    page.write(
        "late_join",
        "real",
        "Real disorder",
        __doc__ or "",
        page.table(["set", "rows", "rows/s", "late share", "mean delay ms", "largest delay s"], late),
        page.table(heads, rows),
        "Periods that ours missed:",
        page.table(["set", "recall", "from s", "to s", "periods", "worst recall", "why"], missed),
    )
