"""Plan of a simulation: one stream's size, times, delays and faults, checked whole before anything is written."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, get_args

from lakehouse.config.durations import format_duration, parse_duration
from lakehouse.config.problems import ConfigError, Problem

DelayKind = Literal["none", "exponential", "pareto", "measured"]
DELAY_KINDS: tuple[DelayKind, ...] = get_args(DelayKind)
DAY_US = parse_duration("1d")


@dataclass(frozen=True)
class Delay:
    """Delay of a row's arrival; ``measured`` has a mean of its own and only keeps ``max_us``."""

    kind: DelayKind = "measured"
    mean_us: int = parse_duration("30s")
    max_us: int = parse_duration("12h")


@dataclass(frozen=True)
class Faults:
    """Shares of the rows, 0 to 1. ``late`` None lets the delays decide how many rows come late."""

    late: float | None = None
    duplicates: float = 0.0
    conflicts: float = 0.0
    bad_clocks: float = 0.0
    dirt: float = 0.0
    gaps: float = 0.0


@dataclass(frozen=True)
class Plan:
    """One stream's simulation. ``rows`` counts rows before repeats are added; ``start_us`` None goes on in time."""

    stream: str
    rows: int
    duration_us: int = DAY_US
    start_us: int | None = None
    sources: int = 50
    files: int = 8
    seed: int = 1
    gzip: bool = False
    delay: Delay = field(default_factory=Delay)
    faults: Faults = field(default_factory=Faults)

    def check(self) -> None:
        """Refuse a plan that cannot be carried out. Raises ConfigError with every problem at once."""
        problems = [*_sizes(self), *_shares(self.faults), *_delays(self)]
        if problems:
            raise ConfigError(f"simulate {self.stream}", problems)


def _sizes(plan: Plan) -> Iterator[Problem]:
    if plan.rows < 1:
        yield Problem("rows", str(plan.rows), "at least 1")
    if plan.duration_us < 1:
        yield Problem("duration", f"{plan.duration_us} us", 'more than nothing, such as "1d"')
    if plan.sources < 1:
        yield Problem("devices", str(plan.sources), "at least 1")
    if plan.seed < 0:
        yield Problem("seed", str(plan.seed), "0 or more")
    if plan.files < 1 or 1 <= plan.rows < plan.files:
        yield Problem("files", str(plan.files), f"1 to {max(plan.rows, 1)}, the number of rows")


def _shares(faults: Faults) -> Iterator[Problem]:
    shares = {
        "late_share": faults.late or 0.0,
        "duplicates": faults.duplicates,
        "conflicts": faults.conflicts,
        "bad_clocks": faults.bad_clocks,
        "dirt": faults.dirt,
    }
    for name, share in (shares | {"gaps": faults.gaps}).items():
        limit = 0.9 if name in ("gaps", "late_share") else 1.0
        if not 0 <= share <= limit:
            yield Problem(name, f"{share:g}", f"a share from 0 to {limit:g}")
    together = sum(share for name, share in shares.items() if name != "late_share")
    if together > 1:
        yield Problem(
            "duplicates, conflicts, bad_clocks, dirt", f"{together:g} together", "at most 1: no row is two"
        )


def _delays(plan: Plan) -> Iterator[Problem]:
    delay = plan.delay
    if delay.kind not in DELAY_KINDS:
        yield Problem("delay", repr(delay.kind), f"one of {', '.join(DELAY_KINDS)}")
    if delay.kind == "none" and plan.faults.late:
        yield Problem(
            "late_share", f"{plan.faults.late:g} with delay none", "a delay: nothing is late without one"
        )
    if delay.mean_us < 1 or delay.max_us < delay.mean_us:
        delays = f"mean {format_duration(delay.mean_us)}, max {format_duration(delay.max_us)}"
        yield Problem("delay_mean, delay_max", delays, "a mean above 0 and a max that is not below it")
