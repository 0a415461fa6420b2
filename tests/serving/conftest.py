"""A published home with random streams; the tests that share it, by the fixture ``lakehouse``, change nothing of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lakehouse.algorithms.rollup.levels import Level
from lakehouse.serving.publish.publish import publish
from lakehouse.serving.sandbox.sandbox import PublishedReader, open_published
from lakehouse.storage.layout import Home
from tests.serving.streams import RandomStream, random_rows

STREAMS = {
    stream.name: stream
    for stream in (
        RandomStream("flat", (Level(10, None),), random_rows(1, 120, 400)),
        RandomStream("pair", (Level(5, 60), Level(20, None)), random_rows(2, 150, 900)),
        RandomStream(
            "deep",
            (Level(1, 30), Level(6, 90), Level(30, 300), Level(120, None)),
            random_rows(3, 300, 3000),
            quarantine={"bad_value": 6, "malformed": 1},
        ),
        RandomStream("old", (Level(2, 24), Level(8, 160), Level(80, None)), random_rows(4, 200, 1500, -1000)),
        RandomStream("limited", (Level(4, 40), Level(20, 400)), random_rows(5, 200, 1200)),
        RandomStream(
            "keyed",
            (Level(3, 30), Level(15, 150), Level(60, None)),
            random_rows(6, 200, 900),
            (("device", "zone"),),
        ),
        RandomStream("sparse", (Level(1, 20), Level(10, 50), Level(50, None)), random_rows(7, 12, 2000)),
        RandomStream("empty", (Level(1, 20), Level(10, None)), []),
    )
}


class Lakehouse:
    """A published home and the rows behind it; no dataclass, as hypothesis would print its every row."""

    def __init__(self, home: Home, streams: dict[str, RandomStream], reader: PublishedReader) -> None:
        self.home = home
        self.streams = streams
        self.reader = reader

    def __repr__(self) -> str:
        return "the published home"


@contextmanager
def published_lakehouse(root: Path) -> Iterator[Lakehouse]:
    """Give every stream of STREAMS, published once."""
    home = Home(root / "home")
    publish(home, [stream.write(root / name) for name, stream in STREAMS.items()])
    with open_published(home) as reader:
        yield Lakehouse(home, STREAMS, reader)
