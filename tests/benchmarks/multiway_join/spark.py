"""In Spark: bytes moved and seconds of joins batch by batch, against the same join in plain Spark SQL.

*Counted*: keys are counted in every batch, as all batches were joined once. *Chosen*: each batch is joined in the way
that the cost model tells. *Plain*: the same join in Spark SQL, with adaptive execution and bloom filters, its results
committed as ours are; it knows which rows are new, keeps nothing, and finds no late rows.

Bytes are what tasks wrote to shuffles and sent to the driver, Spark's own metrics, commits of tables included; of ours
also the filters. Rows that are broadcast count as they go to the driver, on all sides. All write their results to a
table. Simulated streams have rows of 60 bytes or so in batches, windows that reach over three batches, and a share of
rows whose key the other streams have too; the others' keys are their own. Real streams are cut in file order:

| set | streams | equal | window |
| --- | --- | --- | --- |
| conn | zeek-m57-conn: TCP, UDP and ICMP or unanswered connections | both addresses | 30 s |
| packets | iot-packets: TCP, UDP and other packets | sender | 1 s |
| flows | unsw-nb15-flows: of http, ftp, dns and no service | both addresses | 2 s |
| offices | office-rooms: warm, stuffy and occupied minutes | room | 5 min |

Sets that are absent are skipped.
"""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tests.benchmarks import page
from tests.benchmarks.multiway_join.lake import CHOSEN, COUNTED, PLAIN, Batches, Case, Lake, Used

REAL = Path(__file__).parents[4] / "shared" / "data"
SECOND = 1_000_000
BATCH_US = 60 * SECOND
BATCHES = 5
# The first batch, which finds no windows and no compiled plans, is not measured.
WARM = 1
SHARES = (0.01, 1.0)


def figures(quick: bool) -> dict[str, Any]:
    """Return bytes and seconds as a share of plain Spark's, by share of rows that match and by real set."""
    rows = 20_000 if quick else 200_000
    shares = (0.01, 1.0) if quick else SHARES
    with tempfile.TemporaryDirectory() as folder:
        spark = _session(Path(folder))
        try:
            runs = {
                case.name: Lake(spark, Path(folder) / case.name, case).run()
                for case in _cases(shares, rows, quick)
            }
        finally:
            spark.stop()
    if not quick:
        _write(runs, rows)
    return {
        f"{name}_ratio_{way.replace(' ', '_')}": {
            case: round(_total(run[way], figure) / _total(run[PLAIN], figure), 3)
            for case, run in runs.items()
        }
        for name, figure in (("bytes", "moved"), ("seconds", "seconds"), ("processor_seconds", "cpu"))
        for way in (COUNTED, CHOSEN)
    }


def simulated(share: float, rows: int, sides: int) -> Case:
    """Streams of which a share of rows has a key that all have, about one row of each stream in a window."""
    rng = np.random.default_rng([round(share * 100), sides])
    common = max(round(share * rows * 3), 1)
    names = [f"s{number}" for number in range(sides)]
    streams = {
        name: [_simulated(rng, name, batch, rows, share, common) for batch in range(BATCHES)]
        for name in names
    }
    return Case(f"{share:g} of {sides}", streams, (3 * BATCH_US,) * sides)


def _simulated(
    rng: np.random.Generator, name: str, batch: int, rows: int, share: float, common: int
) -> pd.DataFrame:
    is_common = rng.random(rows) < share
    own = rng.integers(0, 3 * rows, rows)
    key = np.where(is_common, rng.integers(0, common, rows), own)
    prefix = np.where(is_common, "10.0.", f"{name}.")
    return pd.DataFrame(
        {
            "event_us": np.sort(rng.integers(batch * BATCH_US, (batch + 1) * BATCH_US, rows)),
            "k": np.char.add(prefix, key.astype(str)),
            "uid": np.char.add(f"{name}-{batch}-", np.arange(rows).astype(str)),
            "value": rng.integers(0, 1500, rows),
        }
    )


def _cases(shares: Sequence[float], rows: int, quick: bool) -> Iterator[Case]:
    real: dict[str, Callable[[], Case]] = {
        "zeek-m57-conn": conn,
        "iot-packets": packets,
        "unsw-nb15-flows": flows,
        "office-rooms": offices,
    }
    yield from (make() for name, make in real.items() if (REAL / name).is_dir() and not quick)
    yield from (simulated(share, rows, 3) for share in shares)


def conn() -> Case:
    """Connections of an office: TCP, UDP, and those that are neither or were not answered."""
    with gzip.open(REAL / "zeek-m57-conn" / "conn.log.gz", "rt") as lines:
        rows = [line.rstrip("\n").split("\t") for line in lines if not line.startswith("#")]
    frame = pd.DataFrame(
        {
            "event_us": [round(float(row[0]) * 1e6) for row in rows],
            "k": [f"{row[2]} {row[4]}" for row in rows],
            "uid": [row[1] for row in rows],
            "value": [int(row[9]) if row[9].isdigit() else None for row in rows],
            "kind": ["other" if row[6] == "icmp" or row[11] in ("S0", "REJ") else row[6] for row in rows],
        }
    )
    return _real("conn", frame, ("tcp", "udp", "other"), 30 * SECOND, slack_us=86_400 * SECOND)


def packets() -> Case:
    """Packets of home devices: TCP, UDP, and the others."""
    frame = pd.read_csv(REAL / "iot-packets" / "packets.csv.gz")
    kind = frame["proto"].map({6: "tcp", 17: "udp"}).fillna("other")
    told = {"event_us": (frame["ts"] * 1e6).round().astype("int64"), "k": frame["src"].astype(str)}
    told |= {
        "uid": frame["file"].astype(str) + "-" + frame["seq"].astype(str),
        "value": frame["len"],
        "kind": kind,
    }
    rows = pd.DataFrame(told).sort_values("event_us", kind="stable")
    return _real("packets", rows, ("tcp", "udp", "other"), SECOND)


def flows() -> Case:
    """Flows of a testbed by service."""
    frame = pd.read_csv(
        REAL / "unsw-nb15-flows" / "UNSW-NB15_1.csv.gz", header=None, skiprows=1, low_memory=False
    )
    services = {"http": "http", "ftp": "ftp", "ftp-data": "ftp", "dns": "dns", "-": "none"}
    told = {"event_us": frame[28].astype("int64") * SECOND, "k": frame[0] + " " + frame[2]}
    told |= {"uid": frame.index.astype(str), "value": frame[7], "kind": frame[13].map(services)}
    return _real(
        "flows", pd.DataFrame(told), ("http", "ftp", "dns", "none"), 2 * SECOND, slack_us=600 * SECOND
    )


def offices() -> Case:
    """Minutes of office rooms: warm, stuffy, and with somebody in it."""
    parts = []
    for path in sorted((REAL / "office-rooms").glob("room_*.csv.gz")):
        rows = pd.read_csv(path)
        room = path.name.removeprefix("room_").removesuffix(".csv.gz")
        times = pd.to_datetime(rows["timestamp"]).astype("datetime64[us]").astype("int64")
        for kind, column, least in (("warm", "temperature", 24), ("stuffy", "co2", 700), ("used", "pir", 1)):
            chosen = rows[column] >= least
            told = {"event_us": times[chosen], "k": room, "uid": f"{room}-" + rows.index[chosen].astype(str)}
            parts.append(
                pd.DataFrame(told | {"value": rows[column][chosen].round().astype("int64"), "kind": kind})
            )
    whole = pd.concat(parts).sort_values("event_us", kind="stable")
    return _real("offices", whole, ("warm", "stuffy", "used"), 300 * SECOND)


def _real(name: str, rows: pd.DataFrame, kinds: Sequence[str], window_us: int, slack_us: int = 0) -> Case:
    """Return rows in file order as one stream a kind, cut at the same rows of the file."""
    cuts = np.linspace(0, len(rows), BATCHES + 1).astype(int)
    parts = [rows.iloc[low:high] for low, high in pairwise(cuts)]
    streams: dict[str, Batches] = {
        f"{name}_{kind}": [part[part["kind"] == kind].drop(columns="kind") for part in parts]
        for kind in kinds
    }
    return Case(name, streams, (window_us,) * len(kinds), slack_us)


def _session(folder: Path) -> Any:
    from lakehouse.settings import Settings
    from lakehouse.spark.session import started_session

    return started_session(Settings(home=folder))


def _total(used: Sequence[Used], name: str) -> float:
    return float(sum(getattr(each, name) for each in used[WARM:]))


def _write(runs: dict[str, dict[str, list[Used]]], rows: int) -> None:
    figures = (("bytes", "moved"), ("seconds", "seconds"), ("processor seconds", "cpu"))
    tables = []
    for name, figure in figures:
        lines: list[list[Any]] = []
        for case, run in runs.items():
            plain, counted, chosen = (_total(run[way], figure) for way in (PLAIN, COUNTED, CHOSEN))
            lines.append([case, plain, counted, chosen, counted / plain, chosen / plain])
        heads = ["streams", "plain", "counted", "chosen", "counted / plain", "chosen / plain"]
        tables.append(f"## {name.capitalize()}\n\n{page.table(heads, lines)}")
    page.write(
        "multiway_join",
        "spark",
        "Joins in Spark against plain Spark SQL",
        __doc__ or "",
        f'Simulated: {rows:,} rows a batch and stream; "0.1 of 3" is three streams of which a tenth of the rows can '
        f"match. Sums over batches {WARM + 1} to {BATCHES}; results of all three are compared, and are the same.",
        *tables,
    )
