"""Whatever is corrected, a version that shares its other nodes has the same content as one that is made anew."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs import build_rollups, ingest, publish, retract
from lakehouse.corrections.retract import RetractRefused, Wrong
from lakehouse.serving.sandbox.sandbox import open_published
from lakehouse.settings import Settings, load_settings
from lakehouse.storage.corrections import read_corrections
from tests.ingest.no_session import no_session
from tests.ingest.test_revisions import until_it_dies
from tests.serving.publish.test_changes import content, small_segments

pytestmark = pytest.mark.slow
HOUR, T0 = 3600, 1_767_225_600
DECLARED = """
home = "var"
[streams.flow]
event_time = { column = "ts", unit = "s" }
identity = ["site", "ts"]
revisions = "newest"
keys = ["site", "code"]
measures = ["value", "meter"]
counters = ["meter"]
groupings = [["site", "code"], ["site"], []]
levels = ["1m for 6h", "10m for 12h", "1h forever"]
source = { path = "landing/*", format = "ndjson", settle = 0 }
columns.value = { type = "decimal", decimals = 1 }
columns.meter = "double"
columns.code = "string"
columns.ts = "int"
"""


@dataclass
class Gauges:
    """A home whose rows are revised, retracted and published in any order."""

    settings: Settings
    dice: np.random.Generator
    landed: int = 0
    times: list[tuple[str, int]] = field(default_factory=list)

    def land(self) -> None:
        """Land rows that go on, and newer ones of some that were there."""
        self.landed += 1
        first = T0 + self.landed * HOUR
        new = [("ab"[self.dice.integers(2)], first + int(at)) for at in self.dice.integers(0, 2 * HOUR, 12)]
        places = self.dice.integers(len(self.times), size=3).tolist() if self.times else ()
        again = [self.times[place] for place in places]
        self.times += new
        folder = Path(self.settings.streams["flow"].source.path).parent
        folder.mkdir(parents=True, exist_ok=True)
        text = "".join(json.dumps(self._row(*place)) + "\n" for place in (*new, *again))
        (folder / f"{self.landed:03d}.ndjson").write_text(text)

    def _row(self, site: str, ts: int) -> dict[str, Any]:
        value = [None, *range(8)][self.dice.integers(9)]
        meter = float(self.dice.integers(100))
        return {"site": site, "ts": ts, "value": value, "meter": meter, "code": "PA"[self.dice.integers(2)]}

    def take_in(self) -> None:
        ingest.run(self.settings, no_session(self.settings), "flow")

    def build(self) -> None:
        build_rollups.run(self.settings, no_session(self.settings), "flow")

    def retract(self) -> None:
        """Take rows of a site and time back out, mostly not the newest."""
        site, ts = self.times[self.dice.integers(len(self.times))]
        wrong = Wrong(where={"site": site}, from_us=ts * 10**6, to_us=(ts + 1800) * 10**6)
        # A batch that was begun may hold such rows, too.
        with suppress(RetractRefused):
            retract.run(self.settings, no_session(self.settings), "flow", wrong, "ann", "broken")

    def rebuild(self) -> None:
        """Build the nodes of an hour again."""
        low = (T0 + HOUR * int(self.dice.integers(1, self.landed + 1))) * 10**6
        build_rollups.rebuild(self.settings, no_session(self.settings), "flow", low, low + 1)

    def publish(self, in_full: bool = False) -> dict[str, Any]:
        return publish.run(self.settings, no_session(self.settings), unchecked=True, in_full=in_full)

    def anew_us(self) -> int:
        """Return when all nodes were last published anew; versions since share them."""
        with open_published(self.settings.layout) as reader:
            [(anew_us,)] = reader.connection.execute("SELECT anew_us FROM publication").fetchall()
        return int(anew_us)


@pytest.fixture
def home(tmp_path: Path) -> Settings:
    (tmp_path / "tidemark.toml").write_text(DECLARED)
    return load_settings(tmp_path / "tidemark.toml")


def begun(home: Settings, seed: int) -> Gauges:
    gauges = Gauges(home, np.random.default_rng(seed))
    for _ in range(2):
        gauges.land()
    for step in (gauges.take_in, gauges.build, gauges.publish):
        step()
    return gauges


@pytest.mark.parametrize(
    "seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 20))]
)
def test_corrections_in_any_order_publish_what_all_nodes_anew_would(home: Settings, seed: int) -> None:
    gauges = begun(home, seed)
    steps = (gauges.land, gauges.take_in, gauges.build, gauges.retract, gauges.rebuild, gauges.publish)
    with small_segments(int(gauges.dice.choice([1, 100, 10**6]))):
        for _ in range(3):
            for place in gauges.dice.integers(len(steps), size=8).tolist():
                until_it_dies(steps[place], int(gauges.dice.choice([-1, 2, 6])))
            for step in (gauges.take_in, gauges.build, gauges.publish):
                step()
            shared = content(home.layout)
            gauges.publish(in_full=True)
            assert shared == content(home.layout)


def test_a_revision_and_a_retraction_share_the_nodes_of_other_times(home: Settings) -> None:
    gauges = begun(home, 5)
    for _ in range(3):
        gauges.land()
        gauges.take_in()
        gauges.build()
    gauges.publish()
    before_us = gauges.anew_us()
    wrong = Wrong(where={"site": "a"}, from_us=(T0 + HOUR) * 10**6, to_us=(T0 + 2 * HOUR) * 10**6)

    retract.run(home, no_session(home), "flow", wrong, "ann", "broken")
    gauges.publish()

    kinds = {correction.kind for correction in read_corrections(home.layout, "flow")}
    assert kinds == {"revise", "retract"}
    assert gauges.anew_us() == before_us
    shared = content(home.layout)
    gauges.publish(in_full=True)
    assert shared == content(home.layout)


def test_when_the_newest_time_moves_back_a_version_is_as_one_made_anew(home: Settings) -> None:
    gauges = begun(home, 7)
    newest = max(ts for _, ts in gauges.times)
    wrong = Wrong(
        where={"site": dict((ts, site) for site, ts in gauges.times)[newest]}, from_us=newest * 10**6
    )

    retract.run(home, no_session(home), "flow", wrong, "ann", "clock")
    gauges.land()
    gauges.take_in()
    gauges.build()
    gauges.publish()

    assert [each.nodes for each in read_corrections(home.layout, "flow") if each.kind == "retract"] == [None]
    moved = content(home.layout)
    gauges.publish(in_full=True)
    assert moved == content(home.layout)
