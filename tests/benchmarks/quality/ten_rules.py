"""Cost of ten rules for a batch: what they add to its ingest and its check, beside Great Expectations' Spark engine.

CSV files, fifty devices, four measures, of which one value in 740 breaks a rule, in one process and one Spark, warm:
of 1,000 rows the median of five batches, of a million of three, of ten million one. Four rules bound a measure, five
want a value, one wants a form of text. The check is the one that follows the batch: it judges the platform's rules
too, also over the batch's new nodes. *Great Expectations' work*: the part of the check with ten rules in which it
judges what the engine has counted. *Great Expectations on Spark*: its own engine and the same ten rules, by one
checkpoint over the batch as the files of raw hold it, a frame that stays in memory meanwhile, and a context without a
project: *with examples* it returns three for each rule, as the check does, *counts* alone otherwise. Both count the
same broken rows. *cpu*: seconds of processors of this process and Spark, none where some of
Spark's workers ended in between.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from jobs import build_rollups, check_quality, ingest
from lakehouse.settings import Settings, load_settings
from lakehouse.spark.session import started_session
from quality.checkpoint import judge
from tests.benchmarks.page import table, write
from tests.benchmarks.parts import cpu_s
from tests.benchmarks.quality.profile_cost import CONFIG, MEASURES, land
from tests.benchmarks.stopwatch import jobs_since
from tests.support.table_rows import table_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# By rows of a batch: files, and batches that are measured.
SIZES = {1_000: (1, 5), 1_000_000: (2, 3), 10_000_000: (8, 1)}
WARM_UP, MOST = 1_000, 35
RULES: list[dict[str, Any]] = [
    *({"expect": "column_values_to_be_between", "column": name, "max_value": MOST} for name in MEASURES),
    *({"expect": "column_values_to_not_be_null", "column": name} for name in (*MEASURES, "device")),
    {"expect": "column_values_to_match_regex", "column": "device", "regex": "^d[0-9]+$"},
]
WAYS = {"no rules": "", "ten that warn": "warn", "ten that reject": "quarantine"}
FORMATS: dict[str, dict[str, Any]] = {
    "with examples": {"result_format": "BASIC", "partial_unexpected_count": 3},
    "counts": {"result_format": "BASIC", "partial_unexpected_count": 0},
}
HEADS = ("rows", "step", "s", "cpu, s", "rows/s", "Spark jobs")
Taken = tuple[float, float, int]


def figures(quick: bool) -> dict[str, Any]:
    """Return seconds and jobs of each step by rows; a full run writes a page, anew after each size."""
    rows = list[list[Any]]()
    says = " ".join((__doc__ or "").split("\n\n", 1)[1].split())
    for size in list(SIZES)[: 1 if quick else None]:
        rows += _of_size(size, quick)
        if not quick:
            write("quality", "ten_rules", "Cost of ten rules", says, table(HEADS, rows))
    return {
        f"{step}, {unit} at {size}": value
        for size, step, seconds, _, _, jobs in rows
        for unit, value in (("s", round(seconds, 3)), ("jobs", jobs))
    }


@dataclass(frozen=True)
class Home:
    """A home whose stream has ten rules of one kind, or none."""

    settings: Settings
    spark: SparkSession

    @classmethod
    def of(cls, folder: Path, on_failure: str, spark: SparkSession | None) -> Home:
        """Make one in a folder; without a session, Spark is started."""
        (folder / "landing").mkdir(parents=True)
        config = CONFIG.replace('engine.runner = "local"\n', "")
        config = config.replace("settle = 0", "settle = 0, batch_bytes = 10_000_000_000")
        rules = "".join(_declared({**rule, "on_failure": on_failure}) for rule in RULES if on_failure)
        (folder / "tidemark.toml").write_text(config + rules)
        settings = load_settings(folder / "tidemark.toml")
        return cls(settings, spark or started_session(settings))

    def take(self, landed: Path, way: str, taken: Callable[[str, Taken], None]) -> int:
        """Ingest and check files that landed; return how many rows break a rule, as the check or the ledger says."""
        for file in landed.iterdir():
            (landed.parent / way / "landing" / file.name).hardlink_to(file)
        of = (self.settings, self.spark, "readings")
        taken(f"ingest, {way}", self.timed(partial(ingest.run, *of)))
        build_rollups.run(*of)
        judged = list[Taken]()
        with mock.patch("quality.verdicts.judge", lambda *given: self._judged(judged, *given)):
            taken(f"check, {way}", self.timed(partial(check_quality.run, *of)))
        if way == "ten that warn":
            taken("Great Expectations' work", judged[0])
        ledger = table_rows(self.settings.layout.ledger("readings"), "quarantined", "batch")
        columns = ("broken", "batch", "expectation")
        verdicts = table_rows(self.settings.layout.quality, *columns) if way == "ten that warn" else ()
        newest = max(batch for _, batch in ledger)
        return sum(row[0] or 0 for row in (*verdicts, *ledger) if row[1] == newest)

    def timed(self, work: Callable[[], object]) -> Taken:
        """Return seconds of the clock and of processors, and jobs of Spark."""
        known, cpu, began = self._last_job(), cpu_s(), time.perf_counter()
        work()
        seconds, used = time.perf_counter() - began, cpu_s() - cpu
        # Idle workers of Spark that end meanwhile take what they have used along.
        return seconds, used if used > 0 else float("nan"), self._last_job() - known

    def _judged(self, taken: list[Taken], *given: Any) -> Any:
        verdicts = list[Any]()
        taken.append(self.timed(lambda: verdicts.extend(judge(*given))))
        return verdicts

    def _last_job(self) -> int:
        return max((job.number for job in jobs_since(self.spark, 0)), default=-1)


def _of_size(size: int, quick: bool) -> Iterator[list[Any]]:
    """Yield a row of figures for each step, in turns over the ways."""
    files, batches = SIZES[size]
    steps: defaultdict[str, list[Taken]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
        homes: dict[str, Home] = {}
        for way, on_failure in WAYS.items():
            first = next(iter(homes.values()), None)
            homes[way] = Home.of(Path(name) / way, on_failure, first.spark if first else None)
        for number in range(1 + (1 if quick else batches)):
            # A first, small batch of each home warms up, and its check is the one of the day that reads everything.
            rows, parts = (size // files, files) if number else (WARM_UP, 1)
            landed = Path(name) / f"landed-{number}"
            for part in range(parts):
                land(landed, number * parts + part, rows)
            with _noting(steps, bool(number)) as taken:
                broken = {way: home.take(landed, way, taken) for way, home in homes.items()}
                judged = dict(_by_spark(homes["no rules"], number + 1, taken))
            assert set(judged.values()) == {broken["ten that warn"]}, (judged, broken)
            assert broken["no rules"] == 0 < broken["ten that reject"] <= broken["ten that warn"], broken
    for step, own in steps.items():
        seconds, cpu, jobs = (statistics.median(each) for each in zip(*own, strict=True))
        yield [size, step, seconds, "-" if isnan(cpu) else cpu, round(size / seconds), jobs]


@contextmanager
def _noting(steps: dict[str, list[Taken]], is_measured: bool) -> Iterator[Callable[[str, Taken], None]]:
    def note(step: str, taken: Taken) -> None:
        if is_measured:
            steps[step].append(taken)

    yield note


def _by_spark(home: Home, batch: int, taken: Callable[[str, Taken], None]) -> Iterator[tuple[str, int]]:
    """Yield how many rows of a batch break a rule, as Great Expectations' Spark engine counts them."""
    import great_expectations as gx
    from great_expectations.data_context.types.base import ProgressBarsConfig

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    asset = context.data_sources.add_spark("batches").add_dataframe_asset("readings")
    definition = gx.ValidationDefinition(
        name="readings",
        data=asset.add_batch_definition_whole_dataframe("new"),
        suite=context.suites.add(
            gx.ExpectationSuite(name="ten", expectations=[_expected(**r) for r in RULES])
        ),
    )
    definition = context.validation_definitions.add(definition)
    raw = home.spark.read.format("delta").load(str(home.settings.layout.raw("readings")))
    for name, result_format in FORMATS.items():
        rows = raw.where(f"batch = {batch}").select("device", *MEASURES)
        checkpoint = gx.Checkpoint(
            name=name, validation_definitions=[definition], result_format=result_format
        )
        outcomes = list[Any]()
        run = partial(checkpoint.run, batch_parameters={"dataframe": rows})
        taken(f"Great Expectations on Spark, {name}", home.timed(lambda: outcomes.append(run())))  # noqa: B023
        rows.unpersist(blocking=True)
        (result,) = outcomes[0].run_results.values()
        yield name, sum(item.result.get("unexpected_count", 0) for item in result.results)


def _expected(expect: str, **keys: Any) -> Any:
    import great_expectations.expectations as gxe

    return getattr(gxe, "Expect" + "".join(word.title() for word in expect.split("_")))(**keys)


def _declared(rule: dict[str, Any]) -> str:
    lines = (
        f"{key} = {value}" if isinstance(value, int) else f"{key} = '{value}'" for key, value in rule.items()
    )
    return "\n".join(["[[streams.readings.rules]]", *lines, ""])
