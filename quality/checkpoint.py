"""Frames judged by the suites: one checkpoint per stream and table, their kept results and pages.

    <home>/reports/gx/      Great Expectations' own project: suites, checkpoints, results
    <home>/reports/site/    the pages; open index.html

Where tables are on a store, results and pages are there too (``shared_reports.py``).

Importing Great Expectations takes 8 s; the context is built once per process and home, and again after another process
has changed the project. One process at a time works on it, under a lease: its files are read, changed and written back
as a whole. Nothing leaves the machine: analytics are off, and pages load nothing from elsewhere (``pages.py``). Results
keep counts and extremes of metrics, no sample values.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakehouse.config.sections import QualitySettings
from lakehouse.settings import Settings
from lakehouse.spark.deviations import Frame
from lakehouse.storage.control.lease import lease
from lakehouse.storage.layout import Home
from lakehouse.storage.stores.store_path import Location
from quality.gate import Verdict
from quality.rules import Rule
from quality.shared_reports import shared_reports

if TYPE_CHECKING:
    import great_expectations as gx
    from great_expectations.data_context.data_context.file_data_context import FileDataContext
    from great_expectations.expectations.expectation import Expectation
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration


SITE = "local_site"
RESULT_FORMAT = {"result_format": "BASIC", "partial_unexpected_count": 0}
# A check holds the project for a second or two: this is enough for the checks of a hundred streams at once.
TIMEOUT_S = 300.0

# Great Expectations takes seconds to open a project, and a process may have one at a time.
OPENED: list[Project] = []


def judge(settings: Settings, stream: str, frames: Sequence[Frame]) -> list[Verdict]:
    """Return a verdict per rule and table, and bring the pages up to date.

    Raises KeyError when a frame lacks a metric that a rule is about; LeaseHeld when other checks have held the
    reports for long.
    """
    # Imported before the lease: other processes would wait for it.
    import great_expectations  # noqa: F401

    with lease(settings.layout, settings.layout.reports, TIMEOUT_S), opened_project(settings) as project:
        return _judged(project, settings, stream, frames)


def _judged(project: Project, settings: Settings, stream: str, frames: Sequence[Frame]) -> list[Verdict]:
    reports, quality = settings.layout.reports, settings.quality
    verdicts: list[Verdict] = []
    judged: list[Any] = []
    with shared_reports(settings.layout) as forgotten:
        for frame in frames:
            observed = _run(project, stream, frame, judged)
            verdicts += [
                _verdict(quality, stream, frame, rule, observed[rule.metric]) for rule in Rule.of(frame)
            ]
        forgotten += _forget(reports, quality.keep_results)
        # Pages that are there stay: only those of the new results are made, and the index.
        is_first = not report_page(settings.layout).exists()
        project.context.build_data_docs(site_names=[SITE], resource_identifiers=None if is_first else judged)
    return verdicts


def report_page(layout: Home) -> Location:
    """Return the page to open first."""
    return layout.report_pages / "index.html"


def stamp_of(reports: Path) -> tuple[tuple[str, int, int], ...]:
    """Return what changes when a process writes the project's file or a suite; nothing where there is none."""
    project = reports / "gx"
    stats = {path.name: path.stat() for path in project.glob("*.yml")}
    stats |= {path.name: path.stat() for path in project.glob("expectations/*.json")}
    return tuple(sorted((name, stat.st_ino, stat.st_mtime_ns) for name, stat in stats.items()))


@dataclass
class Project:
    """This process's context for one home and its limits, and what was made in it: made again, it would be refused."""

    context: FileDataContext
    reports: Path
    limits: QualitySettings
    stamp: tuple[tuple[str, int, int], ...] = ()
    suites: dict[str, gx.ExpectationSuite] = field(default_factory=dict)
    sources: dict[str, Any] = field(default_factory=dict)
    batches: dict[tuple[str, str], Any] = field(default_factory=dict)
    checkpoints: dict[tuple[str, str], tuple[Sequence[Rule], gx.Checkpoint]] = field(default_factory=dict)

    def is_of(self, reports: Path, limits: QualitySettings) -> bool:
        """True if it is of this folder and these limits, and no other process has changed it."""
        return (self.reports, self.limits, self.stamp) == (reports, limits, stamp_of(reports))

    def checkpoint(self, stream: str, frame: Frame) -> gx.Checkpoint:
        """Return what judges the frames of a stream's table, made on first use, and again for other rules."""
        key, rules = (stream, frame.table), Rule.of(frame)
        if key not in self.checkpoints or self.checkpoints[key][0] != rules:
            self.checkpoints[key] = rules, self._made(stream, frame, rules)
        return self.checkpoints[key][1]

    def _made(self, stream: str, frame: Frame, rules: Sequence[Rule]) -> gx.Checkpoint:
        import great_expectations as gx

        name = f"{stream}.{frame.table}"
        # Rules that a stream declares are a suite of its own.
        suite = name if frame.says else frame.table
        if suite not in self.suites or frame.says:
            self.suites[suite] = self.context.suites.add_or_update(_suite(suite, rules, self.limits))
        batch = self._batch(stream, frame.table)
        definition = gx.ValidationDefinition(name=name, data=batch, suite=self.suites[suite])
        checkpoint = gx.Checkpoint(
            name=name,
            validation_definitions=[self.context.validation_definitions.add_or_update(definition)],
            result_format=RESULT_FORMAT,
        )
        return self.context.checkpoints.add_or_update(checkpoint)

    def _batch(self, stream: str, table: str) -> Any:
        if stream not in self.sources:
            self.sources[stream] = self.context.data_sources.add_or_update_pandas(stream)
        if (stream, table) not in self.batches:
            asset = self.sources[stream].add_dataframe_asset(table)
            self.batches[stream, table] = asset.add_batch_definition_whole_dataframe("now")
        return self.batches[stream, table]


def _suite(name: str, rules: Sequence[Rule], settings: QualitySettings) -> gx.ExpectationSuite:
    """Return the suite that judges the table's frame by these rules."""
    import great_expectations as gx

    return gx.ExpectationSuite(name=name, expectations=[_expectation(rule, settings) for rule in rules])


def _expectation(rule: Rule, settings: QualitySettings) -> Expectation:
    from great_expectations.expectations.core.expect_column_max_to_be_between import (
        ExpectColumnMaxToBeBetween,
    )

    return ExpectColumnMaxToBeBetween(
        column=rule.metric,
        max_value=rule.limit(settings),
        description=rule.says,
        meta={"metric": rule.metric},
    )


@contextmanager
def opened_project(settings: Settings) -> Iterator[Project]:
    """Give the project of a home's reports: the last one of this process, or one opened again; the lease is held.

    It is opened again for another home or other limits, whose suites are others, and if another process has changed
    its file, which this one would write back as it was. Opening takes about 8 s the first time, most of it imports.
    """
    reports, limits = settings.layout.reports, settings.quality
    kept = OPENED.pop() if OPENED else None
    project = kept if kept and kept.is_of(reports, limits) else _open(reports, limits)
    yield project
    project.stamp = stamp_of(reports)
    OPENED.append(project)


def _open(reports: Path, limits: QualitySettings) -> Project:
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    import great_expectations as gx
    from great_expectations.data_context.types.base import ProgressBarsConfig

    reports.mkdir(parents=True, exist_ok=True)
    context = gx.get_context(mode="file", project_root_dir=reports)
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    context.update_data_docs_site(SITE, _site(reports))
    return Project(context, reports, limits)


def _site(reports: Path) -> Any:
    ours = {"module_name": "quality.pages"}
    store = ours | {"class_name": "LocalFiles", "base_directory": str(reports / "site")}
    index: dict[str, Any] = {"class_name": "DefaultSiteIndexBuilder"}
    index |= {"renderer": ours | {"class_name": "IndexRenderer"}, "view": ours | {"class_name": "IndexView"}}
    return {"class_name": "SiteBuilder", "store_backend": store, "site_index_builder": index}


def _run(project: Project, stream: str, frame: Frame, judged: list[Any]) -> dict[str, Any]:
    """Return the result of each metric of a frame; what names the results is added to ``judged``."""
    import pandas as pd

    metrics = pd.DataFrame(frame.rows).astype({rule.metric: "float64" for rule in Rule.of(frame)})
    outcome = project.checkpoint(stream, frame).run(batch_parameters={"dataframe": metrics})
    ((name, result),) = outcome.run_results.items()
    judged.append(name)
    return {_metric(item.expectation_config): item for item in result.results}


def _metric(judged: ExpectationConfiguration | None) -> str:
    return str(judged.meta["metric"]) if judged and judged.meta else ""


def _verdict(settings: QualitySettings, stream: str, frame: Frame, rule: Rule, result: Any) -> Verdict:
    observed = result.result.get("observed_value")
    worst = max(frame.rows, key=lambda row: float(row[rule.metric]))
    return Verdict(
        stream=stream,
        table=rule.table,
        metric=rule.metric,
        success=bool(result.success),
        observed=None if observed is None else float(observed),
        expected=f"at most {rule.limit(settings):g}",
        says=rule.says,
        where=", ".join(f"{name} {worst[name]}" for name in frame.place),
        seen=frame.seen.get(rule.metric, ""),
        counts=frame.counts.get(rule.metric),
    )


def _forget(reports: Path, keep: int) -> list[str]:
    """Delete all but the newest results of each stream and table, and their pages; return their paths in the folder."""
    results, pages = reports / "gx" / "uncommitted" / "validations", reports / "site" / "validations"
    kept: dict[tuple[str, str], int] = {}
    gone: list[Path] = []
    for run in sorted(results.glob("*/*/*/*.json"), key=lambda path: path.parent.name, reverse=True):
        key = (run.parts[-4], run.name)
        kept[key] = kept.get(key, 0) + 1
        if kept[key] > keep:
            page = pages / run.relative_to(results).with_suffix(".html")
            page.unlink(missing_ok=True)
            shutil.rmtree(run.parent)
            gone += [run, page]
    return [path.relative_to(reports).as_posix() for path in gone]
