"""Cost of a whole ingest job of a thousand records, of every preset and way of spelling, beside plain lines of CSV.

The records of ``parser``, a file of a thousand of one kind at a time, each kind into a home of its own, in turns in one
warm session on Spark's runner: seconds of processors and of the clock, medians of five rounds after two that warm up.
Presets have an identity, by which rows are compared, so the job of CSV to compare with has one, too. The
parser alone is beside it, as ``parser`` measures it.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobs import ingest
from lakehouse.settings import Settings, load_settings
from lakehouse.spark.session import build_session, end_session
from tests.benchmarks.page import table, write
from tests.benchmarks.parts import cpu_s
from tests.benchmarks.sources import parser
from tests.benchmarks.sources.parser import FILES, READINGS, SMALL, Kind, kinds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROUNDS, WARM_UP = 5, 2
WITH_IDENTITY = "csv_with_identity"
HEADS = (
    "records",
    "bytes",
    "rows",
    "identity",
    "CPU s of a job",
    "like CSV = 1",
    "parser alone: ms",
    "plain CSV = 1",
)


def figures(quick: bool) -> dict[str, Any]:
    """Return what each kind costs; a full run writes it to a page."""
    alone = parser.figures(True)
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
        of = _kinds()
        homes = {kind: _home(Path(name) / kind, each) for kind, each in of.items()}
        spark = build_session(homes["csv"])
        taken: dict[str, list[tuple[float, float]]] = {kind: [] for kind in homes}
        for number in range(1 if quick else WARM_UP + ROUNDS):
            for kind, settings in homes.items():
                _land(settings, of[kind], number)
                taken[kind].append(_job(settings, spark))
        end_session(spark)
    found: dict[str, Any] = {}
    for kind, rounds in taken.items():
        wall, cpu = (statistics.median(each) for each in zip(*rounds[-ROUNDS:], strict=True))
        has_one = bool(homes[kind].stream("s").identity)
        found[kind] = {"cpu_s": round(cpu, 3), "s": round(wall, 3), "has_identity": has_one}
    for own in found.values():
        like = found[WITH_IDENTITY if own["has_identity"] else "csv"]
        own["ratio"] = round(own["cpu_s"] / like["cpu_s"], 2)
    if not quick:
        _write_page(found, alone)
    return found


def _kinds() -> dict[str, Kind]:
    plain = kinds()["csv"]
    declared = READINGS.format(source=FILES.format("csv"), more='identity = ["device", "ts"]', device="")
    return {"csv": plain, WITH_IDENTITY: replace(plain, declared=declared), **kinds()}


def _home(folder: Path, kind: Kind) -> Settings:
    folder.mkdir()
    (folder / "tidemark.toml").write_text(f'home = "var"\n{kind.declared}', encoding="utf-8")
    settings = load_settings(folder / "tidemark.toml")
    stream = settings.stream("s")
    source = stream.source.model_copy(update={"settle": 0})
    return settings.model_copy(
        update={"streams": {"s": settings.streams["s"].model_copy(update={"source": source})}}
    )


def _land(settings: Settings, kind: Kind, number: int) -> None:
    """Put a file of new records where the stream looks for it, behind the header that its format has."""
    source = settings.streams["s"].source
    path = Path(source.path).parent / f"{number:03}{Path(source.path).suffix}"
    path.parent.mkdir(parents=True, exist_ok=True)
    names = kind.layout or ()
    header = "#fields\t" + "\t".join(names) if source.format == "zeek" else source.separator.join(names)
    lines = [header.encode()] if names else []
    lines += (kind.record(number * SMALL + each) for each in range(SMALL))
    path.write_bytes(b"\n".join(lines) + b"\n")


def _job(settings: Settings, spark: SparkSession) -> tuple[float, float]:
    before, started = cpu_s(), time.perf_counter()
    counts = ingest.run(settings, spark, "s")
    taken = time.perf_counter() - started, cpu_s() - before
    assert counts["accepted"] and not counts["quarantined"], counts
    return taken


def _write_page(found: dict[str, Any], alone: dict[str, Any]) -> None:
    alone[WITH_IDENTITY] = alone["csv"]
    rows = [
        [
            *(
                kind,
                alone[kind]["bytes"],
                alone[kind]["rows"],
                own["has_identity"],
                own["cpu_s"],
                own["ratio"],
            ),
            *(alone[kind]["small_ms"], alone[kind]["small_ratio"]),
        ]
        for kind, own in found.items()
    ]
    about = "Other work ran on the same two cores: compare processor seconds and ratios."
    write(
        "sources", "presets", "A thousand records of every preset", __doc__ or "", about, table(HEADS, rows)
    )
