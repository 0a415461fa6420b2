"""Increases of counters whose readings doubles do not hold: beside whole numbers of Python, and never falsely exact."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from lakehouse.serving.ask.ask import ask
from lakehouse.serving.publish.publish import publish
from lakehouse.serving.publish.snapshot import PublishedMeasure
from lakehouse.serving.sandbox.sandbox import PublishedReader, open_published
from lakehouse.storage.layout import Home
from tests.serving.ask.test_increase import METERS, SPAN, Meters
from tests.serving.streams import write_delta

Reading = tuple[int, str | None, int]
# By stream: the first readings, and how often a meter begins anew.
STREAMS = {
    "grows": (2**53 - 50, 0.0),
    "resets": (2**53 - 50, 0.04),
    "long": (2**60, 0.04),
    "decimal": (10**15 - 50, 0.02),
}
RANGES = [(0, SPAN), (240, 480), *((start, start + 60) for start in range(0, SPAN, 137))]


def readings_of(name: str) -> list[Reading]:
    (first, share), dice, found = STREAMS[name], random.Random(name), list[Reading]()
    at = dict.fromkeys(METERS, first)
    for time in sorted(dice.sample(range(SPAN), 300)):
        meter = dice.choice(METERS)
        at[meter] = 0 if dice.random() < share else at[meter] + dice.randrange(1, 9)
        found.append((time, meter, at[meter]))
    return found


def increase(readings: list[Reading], start: int, end: int, meter: str | None) -> int | None:
    own = [value for time, key, value in readings if key == meter and start <= time < end]
    steps = [after - before if after >= before else after for before, after in pairwise(own)]
    return sum(steps) if own else None


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublishedReader]:
    root: Path = tmp_path_factory.mktemp("long")
    snapshots = []
    for name in STREAMS:
        every = readings_of(name)
        late = every[::11]
        batches = [[row for row in every if row not in late], late]
        meters = Meters(
            PublishedMeasure(name, "int", 0, True), [[(t, m, float(v)) for t, m, v in own] for own in batches]
        )
        snapshots.append(meters.write(root / name))
        times, keys, values = (list(column) for column in zip(*every, strict=True))
        exact = pa.table({"event_us": times, "device": keys, name: values, "batch": [1] * len(every)})
        for path in (root / name / "raw").iterdir():
            if path.suffix == ".parquet":
                path.unlink()
        write_delta(exact, root / name / "raw")
    home = Home(root / "home")
    publish(home, snapshots)
    with open_published(home) as found:
        yield found


@pytest.mark.parametrize("name", STREAMS)
def test_an_increase_is_exact_to_its_last_digit_or_its_sides_hold_it(
    reader: PublishedReader, name: str
) -> None:
    readings = readings_of(name)
    for start, end in RANGES:
        right = increase(readings, start, end, "a")
        (nodes,), (raw,) = (
            ask(reader, name, name, "increase", start, end, {"device": "a"}, exact=each)
            for each in (False, True)
        )
        if right is None:
            assert raw.value is None
            continue
        assert (raw.exact, raw.exact_value, raw.value) == (True, str(right), float(right))
        assert nodes.low is None or Fraction(nodes.low) <= right
        assert nodes.high is None or right <= Fraction(nodes.high)
        assert not nodes.exact or nodes.exact_value == str(right)
