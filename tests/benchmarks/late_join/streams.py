"""Generated streams with the figures of the paper's two soccer recordings: rates, late shares, delays.

Four balls (left) and 36 sensors on 18 players (right), each a point that wanders. A row's delay is nothing for the
share of rows that the paper has on time, else an exponential jitter; sensors fall silent for up to 4 s and then send
what they held; a few single rows straggle. The jitter is scaled until the mean delay is the paper's.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lakehouse.algorithms.late_join.contract import Batch
from tests.benchmarks import page

SECOND = 1_000_000
START_US = 1_400_000_000 * SECOND
PITCH = np.array([105.0, 68.0])
BALL_SHARE, BALLS, PLAYER_SENSORS, PLAYERS = 0.235, 4, 36, 18
STRAGGLERS, LONGEST_SILENCE_S = 2e-5, 4.0


@dataclass(frozen=True)
class Recording:
    """What the paper prints of a recording."""

    seconds: float
    tuples_per_s: float
    late_share: float
    mean_delay_ms: float
    max_delay_s: float
    seed: int

    @property
    def delays(self) -> tuple[float, float]:
        """Return mean and largest delay, as the tables have them."""
        return self.mean_delay_ms, self.max_delay_s


RECORDINGS = {
    "D1": Recording(831.17, 8514, 5_940_703 / 7_122_060, 34.133, 142.14664, 1),
    "D2": Recording(384.08, 10_037, 3_493_068 / 4_022_600, 29.597, 170.95926, 2),
}


class Disorder(NamedTuple):
    """How late the rows of a stream are."""

    tuples: int
    tuples_per_s: float
    late_share: float
    mean_delay_ms: float
    max_delay_s: float


@cache
def recording(name: str, seconds: float | None = None, rate: float = 1.0, balls: int = BALLS) -> Batch:
    """Return a recording's rows in arrival order; optionally its first seconds only, or a share of its rate.

    Fewer balls send as many rows together.
    """
    spec = RECORDINGS[name]
    rng = np.random.default_rng(spec.seed)
    length = min(seconds or spec.seconds, spec.seconds)
    sensor, at_s = _sent(rng, spec.tuples_per_s * rate, length, balls)
    side = (sensor >= balls).astype(np.int8)
    held = _held_back(rng, sensor, at_s, length, balls)
    straggling = _straggling(rng, spec, len(at_s))
    delay = _delays(rng, spec, side, at_s, held, straggling)
    arrival = at_s + delay
    order = np.argsort(arrival, kind="stable")
    event_us = START_US + (at_s * SECOND).astype(np.int64)
    x, y = _places(rng, sensor, at_s, length, balls)
    return Batch.of(
        side[order],
        event_us[order],
        arrival_us=START_US + (arrival[order] * SECOND).astype(np.int64),
        row=order,
        key=sensor[order],
        source=sensor[order],
        numbers=np.column_stack([x, y])[order],
    )


def disorder(batch: Batch) -> Disorder:
    """Return how late rows are against the newest of their own side, as the paper measures it."""
    late = np.zeros(len(batch))
    for side in (0, 1):
        mine = np.flatnonzero(batch.side == side)
        late[mine] = np.maximum.accumulate(batch.event_us[mine]) - batch.event_us[mine]
    span = (batch.event_us.max() - batch.event_us.min()) / SECOND
    return Disorder(
        tuples=len(batch),
        tuples_per_s=float(len(batch) / span),
        late_share=float(np.mean(late > 0)),
        mean_delay_ms=float(late.mean() / 1000),
        max_delay_s=float(late.max() / SECOND),
    )


def in_event_order(batch: Batch) -> Batch:
    """Return the same rows with none late, so that every pair is found online."""
    ordered = batch[np.argsort(batch.event_us, kind="stable")]
    columns = {name: getattr(ordered, name) for name in ("row", "key", "missing", "numbers", "source")}
    return Batch.of(ordered.side, ordered.event_us, arrival_us=ordered.event_us, **columns)


def figures(quick: bool) -> dict[str, Any]:
    """Return the measured disorder of the generated recordings."""
    found = {
        name: disorder(recording(name, *((120.0, 0.125) if quick else (None, 1.0)))) for name in RECORDINGS
    }
    if not quick:
        _write(found)
    return {f"stream_{name}": each._asdict() for name, each in found.items()}


def _sent(rng: Any, rate: float, length: float, balls: int) -> tuple[Any, Any]:
    shares = [BALL_SHARE / balls] * balls + [(1 - BALL_SHARE) / PLAYER_SENSORS] * PLAYER_SENSORS
    rates = rate * np.array(shares)
    times = [(np.arange(int(each * length)) + rng.random()) / each for each in rates]
    sensor = np.repeat(np.arange(len(rates)), [len(each) for each in times])
    at_s = np.concatenate(times)
    order = np.argsort(at_s, kind="stable")
    return sensor[order], at_s[order]


def _held_back(rng: Any, sensor: Any, at_s: Any, length: float, balls: int) -> npt.NDArray[np.float64]:
    """Return how long each row waits for its sensor to send again; silences come in episodes."""
    held = np.zeros(len(at_s))
    episodes = np.cumsum(rng.exponential(20.0, int(length / 10) + 1))
    for number in range(balls + PLAYER_SENSORS):
        mine = np.flatnonzero(sensor == number)
        count = rng.poisson(length / 8)
        begins = np.sort(rng.choice(episodes, count) + rng.exponential(2.0, count))
        lasts = np.minimum(0.1 * (1 + rng.pareto(1.5, count)), LONGEST_SILENCE_S)
        for begin, end in zip(begins, begins + lasts, strict=True):
            first, after = np.searchsorted(at_s[mine], [begin, end])
            inside = mine[first:after]
            held[inside] = np.maximum(held[inside], end - at_s[inside])
    return held


def _straggling(rng: Any, spec: Recording, count: int) -> npt.NDArray[np.float64]:
    which = rng.random(count) < STRAGGLERS
    late = np.where(which, np.minimum(0.5 * (1 + rng.pareto(0.8, count)), spec.max_delay_s), 0.0)
    # One row at least has the largest delay, sent early enough to arrive inside the recording.
    late[count // 3] = spec.max_delay_s
    return late


def _delays(
    rng: Any, spec: Recording, side: Any, at_s: Any, held: Any, straggling: Any
) -> npt.NDArray[np.float64]:
    unit = np.where(rng.random(len(at_s)) < spec.late_share, rng.exponential(1.0, len(at_s)), 0.0)
    longest = np.maximum(held, straggling)
    scale = spec.mean_delay_ms / 1000
    for _ in range(4):
        delay = np.maximum(unit * scale, longest)
        order = np.argsort(at_s + delay, kind="stable")
        mean = sum(_total_lateness(at_s[order][side[order] == each]) for each in (0, 1)) / len(at_s)
        scale = max(scale + (spec.mean_delay_ms / 1000 - mean) / spec.late_share, 1e-4)
    delays: npt.NDArray[np.float64] = np.maximum(unit * scale, longest)
    return delays


def _total_lateness(at_s: Any) -> float:
    return float((np.maximum.accumulate(at_s) - at_s).sum())


def _places(rng: Any, sensor: Any, at_s: Any, length: float, balls: int) -> tuple[Any, Any]:
    """Return metres: balls wander over the pitch, players about their homes and drawn to the first ball."""
    ticks = np.arange(int(length * 10) + 2)
    tracks = [np.array([_wander(rng, len(ticks), span, 4.0) for span in PITCH]) for _ in range(balls)]
    xs, ys = np.empty(len(at_s)), np.empty(len(at_s))
    homes = rng.random((PLAYERS, 2)) * PITCH
    for home in homes:
        own = np.array([_wander(rng, len(ticks), 30.0, 6.0) - 15.0 for _ in range(2)])
        tracks.append(home[:, None] * 0.8 + own + 0.2 * tracks[0])
    for number in range(balls + PLAYER_SENSORS):
        mine = sensor == number
        track = tracks[number if number < balls else balls + number % PLAYERS]
        xs[mine], ys[mine] = (np.interp(at_s[mine] * 10, ticks, line) for line in track)
    return xs, ys


def _wander(rng: Any, count: int, span: float, period_s: float) -> npt.NDArray[np.float64]:
    targets = rng.random(int(count / (10 * period_s)) + 3) * span
    track: npt.NDArray[np.float64] = np.interp(
        np.arange(count) / (10 * period_s), np.arange(len(targets)), targets
    )
    return track


def _write(found: dict[str, Disorder]) -> None:
    heads = ["recording", "tuples", "tuples/s", "late share", "mean delay ms", "largest delay s"]
    paper = [
        [name + ", the paper", round(s.seconds * s.tuples_per_s), s.tuples_per_s, s.late_share, *s.delays]
        for name, s in RECORDINGS.items()
    ]
    page.write(
        "late_join",
        "streams",
        "Generated streams",
        __doc__ or "",
        page.table(heads, [[name, *each] for name, each in found.items()] + paper),
    )
