"""Some messages of a topic as a file of lines, by which it is declared like one."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from lakehouse.config.stream import Source
from lakehouse.ingest.sources.kafka import Broker
from lakehouse.ingest.sources.manifest import OffsetRange
from lakehouse.ingest.sources.messages import read_range
from lakehouse.propose.declaration import Proposal
from lakehouse.propose.sample import NothingToRead

# Of each partition so many messages are looked at, at its beginning and at its end, and of so many partitions.
_MESSAGES, _PARTITIONS = 200, 8


def source_of(topic: str, servers: Sequence[str], options: Mapping[str, str]) -> Source:
    """Return the source of a topic; raises ValueError when an option is none that a declaration can have.

    Its message does not show values, of which one may be a secret.
    """
    declared = {
        "kind": "kafka",
        "servers": servers,
        "topics": [topic],
        "format": "ndjson",
        "options": options,
    }
    try:
        return Source.model_validate(declared)
    except ValidationError as error:
        raise ValueError("; ".join(each["msg"] for each in error.errors(include_input=False))) from None


def write_sample(source: Source, folder: Path) -> Path:
    """Return a file in a folder with the first and the last messages of a topic, one a line.

    Raises NothingToRead when it has none, or they are of a form that has no lines; BrokerFailed when the broker does
    not answer.
    """
    topic = source.topics[0]
    records = [record for record in _records(source) if record is not None]
    if not records:
        raise NothingToRead(f"topic {topic}: it has no message yet")
    if any(b"\0" in record for record in records):
        raise NothingToRead(
            f"topic {topic}: messages are no text; declare them by hand, such as with schema_file"
        )
    file = folder / topic
    # Between members of JSON an end of a line is a blank.
    file.write_bytes(b"".join(record.replace(b"\r", b" ").replace(b"\n", b" ") + b"\n" for record in records))
    return file


def of_topic(proposal: Proposal, source: Source) -> Proposal:
    """Return a proposal of a sample as one of its topic.

    Raises NothingToRead when fields of messages would have no names.
    """
    found = proposal.table["source"]
    if found["format"] == "csv":
        raise NothingToRead(
            f"topic {source.topics[0]}: messages are delimited texts, whose fields have no names; declare source.fields"
        )
    declared: dict[str, Any] = {
        "kind": "kafka",
        "servers": list(source.servers),
        "topics": list(source.topics),
    }
    declared |= {key: value for key, value in found.items() if key not in ("path", "encoding")}
    declared |= {"options": dict(source.options)} if source.options else {}
    return replace(proposal, table={**proposal.table, "source": declared})


def _records(source: Source) -> Iterator[bytes | None]:
    held = Broker(source).held()
    for (topic, partition), offsets in list(held.items())[:_PARTITIONS]:
        middle = min(offsets.first + _MESSAGES, offsets.end)
        for start, end in ((offsets.first, middle), (max(middle, offsets.end - _MESSAGES), offsets.end)):
            for lines in read_range(OffsetRange(topic, partition, start, end, offsets.topic_id), source):
                yield from lines["record"].to_pylist()
