"""Files judged by a declaration, without writing: how many rows would be accepted, and why others would not."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.config.stream import Stream
from lakehouse.ingest.identities.identities import hashes_of
from lakehouse.ingest.parser.parser import Parser
from lakehouse.ingest.parser.verdicts import FILTERED
from lakehouse.ingest.sources.files import landed, matching
from lakehouse.ingest.sources.landed_content import seen
from lakehouse.ingest.sources.lines import parsed_file
from lakehouse.ingest.sources.manifest import LandedFile
from lakehouse.propose.declared_line import declared_line
from lakehouse.storage.identity_index import Hashes

_EXAMPLES, _SHOWN = 3, 200


@dataclass
class Trial:
    """Counts of rows, and of each reason examples with file, line, what was found and the record.

    ``repeated``: accepted rows with the identity of another one of these, None where rows have none. ``identities`` are
    the hashes of these.
    """

    files: int = 0
    rows: int = 0
    accepted: int = 0
    filtered: int = 0
    repeated: int | None = None
    missing: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, dict[str, Any]] = field(default_factory=dict)
    is_cut: bool = False
    identities: list[Hashes] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return the counts as JSON has them."""
        return {
            "files": self.files,
            "rows": self.rows,
            "accepted": self.accepted,
            "filtered": self.filtered,
            "repeated": self.repeated,
            "missing": self.missing,
            "rejected": [{"reason": reason} | found for reason, found in self.reasons.items()],
            "more": self.is_cut,
        }


def tried(stream: Stream, files: Sequence[Path], most_rows: int) -> Trial:
    """Return what a declaration makes of some files, or for none of those that its source names, up to so many rows.

    Of rows with one identity contents are not compared, and not what other batches hold. Memory: a block of a file, and
    eight bytes for each row that has an identity. Raises OSError when the file
    cannot be read; ValueError when messages of topics are asked for, which are not read without an offset being
    fixed.
    """
    if stream.source.kind == "kafka":
        raise ValueError(f"stream {stream.name}: a topic is not read on trial; run it")
    result = Trial()
    _try(result, stream, files, most_rows)
    if stream.identity:
        hashes = np.concatenate([np.empty(0, np.uint64), *result.identities])
        result.repeated = len(hashes) - len(np.unique(hashes))
    return result


def _try(result: Trial, stream: Stream, files: Sequence[Path], most_rows: int) -> None:
    for each in _files(stream, files):
        result.files += 1
        parser = Parser.of_files(stream, [each])
        for rows in parsed_file(each, 0, parser):
            _count(result, rows, stream)
            if result.rows >= most_rows:
                result.is_cut = True
                return


def _files(stream: Stream, files: Sequence[Path]) -> Iterable[LandedFile]:
    for path in (str(file.absolute()) for file in files):
        yield landed(path, seen(path), stream.source)
    if files:
        return
    for name, known in matching(stream.source):
        yield landed(name, known, stream.source)


def _count(result: Trial, rows: pa.Table, stream: Stream) -> None:
    own = rows.filter(pc.fill_null(pc.not_equal(rows["reason"], FILTERED), True))
    result.filtered += rows.num_rows - own.num_rows
    rows = own
    result.rows += rows.num_rows
    is_good = rows["reason"].is_null()
    good = rows.filter(is_good)
    result.accepted += good.num_rows
    if stream.identity:
        hashes, has_all = hashes_of(good, stream)
        result.identities.append(hashes[has_all])
    for measure in stream.measures:
        result.missing[measure] = result.missing.get(measure, 0) + good[measure].null_count
    bad = rows.filter(pc.invert(is_good))
    for counted in bad["reason"].value_counts().to_pylist():
        found = result.reasons.setdefault(
            counted["values"], {"rows": 0, "declared_line": None, "examples": []}
        )
        found["rows"] += counted["counts"]
        if len(found["examples"]) < _EXAMPLES:
            examples = bad.filter(pc.equal(bad["reason"], counted["values"])).slice(0, _EXAMPLES).to_pylist()
            found["examples"] = [_example(each) for each in examples]


def add_lines(trial: Trial, stream: Stream, lines: Mapping[str, int]) -> None:
    """Add to each reason the line of the declaration that its first example does not meet.

    ``lines``: the line of each key of the configuration.
    """
    for reason, found in trial.reasons.items():
        found["declared_line"] = declared_line(stream, reason, found["examples"][0]["detail"], lines)


def _example(row: dict[str, Any]) -> dict[str, Any]:
    record = (row["record"] or b"").decode("utf-8", "backslashreplace")[:_SHOWN]
    return {"file": row["source_file"], "line": row["source_line"], "detail": row["detail"], "record": record}
