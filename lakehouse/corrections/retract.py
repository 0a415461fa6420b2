"""Wrong rows taken back out of raw and of every level, with a record of who asked, why, what and how many.

Rows are named by their file, by values of columns, or by their identity, and by a range of event time. Only rows of
finished batches can be named, and only where all raw rows are kept: else nodes could not be built without them.
"""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lakehouse.algorithms.rollup.levels import KEPT_FOREVER_US
from lakehouse.config.landing import name_in_landing
from lakehouse.config.store_address import is_remote
from lakehouse.config.stream import Stream
from lakehouse.corrections import corrections
from lakehouse.corrections.rebuild import check_range, widened
from lakehouse.corrections.wrong_rows import RetractRefused as RetractRefused
from lakehouse.corrections.wrong_rows import Wrong as Wrong
from lakehouse.corrections.wrong_rows import count_wrong
from lakehouse.engine import Session, engine_of
from lakehouse.ingest.parser.message_texts import SCHEME
from lakehouse.ingest.sources.manifest import Repeat
from lakehouse.ingest.sources.manifest_store import ManifestStore
from lakehouse.rollup import rollup
from lakehouse.storage.corrections import RETRACT, Correction, read_corrections
from lakehouse.storage.layout import Home
from lakehouse.storage.ledger import read_extent


def _as_raw_has(stream: Stream, wrong: Wrong) -> Wrong:
    """Return the rows with their file by the name that raw knows it by.

    It is given by path, URL or name; a partition of a topic, kafka:<topic>/<partition>, is no path. Raises
    RetractRefused when nothing is named.
    """
    file, landing = wrong.file, stream.source.path
    if not (file or wrong.where):
        raise RetractRefused(f"stream {stream.name}: name the rows by a file or by values of columns")
    if file is None:
        return wrong
    if file.startswith(SCHEME) or is_remote(file):
        return replace(wrong, file=name_in_landing(landing, file))
    path = str(Path(file).expanduser().absolute())
    name = name_in_landing(landing, path)
    return wrong if name == path and not file.startswith(("/", "~")) else replace(wrong, file=name)


def is_retracted(layout: Home, stream: str, repeat: Repeat) -> bool:
    """True if all rows of the file that was read have been retracted since."""
    return any(
        each.kind == RETRACT
        and each.condition == Wrong(repeat.read_as).recorded()
        and each.through >= repeat.batch
        for each in read_corrections(layout, stream)
    )


def retract(
    spark: Session, layout: Home, stream: Stream, wrong: Wrong, by: str, why: str, dry_run: bool = False
) -> dict[str, Any]:
    """Take rows back out; return how many, of how many batches. Whoever calls holds the leases of raw and rollup.

    Raises RetractRefused when a batch is not finished, or the rows are not named as they can be; RawIncomplete when
    raw rows of the time asked for are gone; RollupOutdated when the rollup is not what the stream declares now.
    """
    named = _as_raw_has(stream, wrong)
    through = read_extent(layout, stream.name).batch
    if ManifestStore(layout.manifests(stream.name)).last_batch > through:
        raise RetractRefused(
            f"stream {stream.name}: batch {through + 1} was begun and is not finished; it may hold such rows too: "
            "run `tidemark run` first"
        )
    rows = named.rows_of(stream, through)
    check_range(layout, stream, KEPT_FOREVER_US if wrong.from_us is None else wrong.from_us)
    rollup.append_new(spark, layout, stream)
    found = count_wrong(engine_of(spark), layout.raw(stream.name), rows, f"count wrong rows of {stream.name}")
    low = min((each["low_us"] for each in found), default=None)
    high = max((each["high_us"] for each in found), default=None)
    if low is not None:
        check_range(layout, stream, widened(stream, low, None)[0])
    batches = Counter[int]()
    for each in found:
        batches[each["batch"]] += each["rows"]
    rows_gone = batches.total()
    figures: dict[str, Any] = {
        "rows": rows_gone,
        "batches": len(batches),
        "from_us": low,
        "to_us": high and high + 1,
    }
    if low is not None and high is not None and not dry_run:
        asked = Correction(
            *(0, RETRACT, False, by, why, str(named), named.recorded(), low, high + 1, through),
            *(rows_gone, dict(batches), datetime.now(UTC)),
            nodes=[widened(stream, low, high + 1)],
        )
        begun = corrections.begin(layout, stream, asked)
        corrections.carry_out(spark, layout, stream, begun)
        figures["correction"] = begun.number
    return figures
