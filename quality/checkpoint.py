"""Frames judged by the suites: one checkpoint per stream and table, their kept results and pages.

    <home>/reports/gx/      Great Expectations' own project: suites, checkpoints, results
    <home>/reports/site/    the pages; open index.html

Importing Great Expectations takes 8 s; the context is built once per process and home. Nothing leaves the machine:
analytics are off. Results keep counts and extremes of metrics, no sample values.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakehouse.declare.settings import QualitySettings, Settings
from quality.gate import Verdict
from quality.rules import Rule, load_rules
from quality.suites import build_suite

if TYPE_CHECKING:
    from great_expectations.data_context.data_context.file_data_context import FileDataContext
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

    from lakehouse.spark.deviations import Frame

SITE = "local_site"
RESULT_FORMAT = {"result_format": "BASIC", "partial_unexpected_count": 0}


def judge(settings: Settings, stream: str, frames: Sequence[Frame]) -> list[Verdict]:
    """Return a verdict per rule and table, and bring the pages up to date.

    Raises:
        KeyError: when a frame lacks a metric that a rule is about.
    """
    context = open_context(settings.layout.reports)
    verdicts: list[Verdict] = []
    for frame in frames:
        rules = load_rules()[frame.table]
        observed = _run(context, settings.quality, stream, frame, rules)
        verdicts += [_verdict(settings.quality, stream, frame, rule, observed[rule.metric]) for rule in rules]
    _forget(settings.layout.reports, settings.quality.keep_results)
    context.clean_data_docs(site_name=SITE)
    context.build_data_docs(site_names=[SITE])
    return verdicts


def report_page(reports: Path) -> Path:
    """Return the page to open first."""
    return reports / "site" / "index.html"


@cache
def open_context(reports: Path) -> FileDataContext:
    """Return this process's context below the folder, made on first use; about 8 s, most of it imports."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    import great_expectations as gx
    from great_expectations.data_context.types.base import ProgressBarsConfig

    reports.mkdir(parents=True, exist_ok=True)
    context = gx.get_context(mode="file", project_root_dir=reports)
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    context.update_data_docs_site(SITE, _site(reports))
    return context


def _site(reports: Path) -> Any:
    store = {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(reports / "site")}
    index = {"class_name": "DefaultSiteIndexBuilder"}
    return {"class_name": "SiteBuilder", "store_backend": store, "site_index_builder": index}


def _run(
    context: FileDataContext, settings: QualitySettings, stream: str, frame: Frame, rules: Sequence[Rule]
) -> dict[str, Any]:
    import great_expectations as gx
    import pandas as pd

    name = f"{stream}.{frame.table}"
    suite = context.suites.add_or_update(build_suite(frame.table, rules, settings))
    source = context.data_sources.add_or_update_pandas(stream)
    asset = source.add_dataframe_asset(frame.table)
    batch = asset.add_batch_definition_whole_dataframe("now")
    definition = gx.ValidationDefinition(name=name, data=batch, suite=suite)
    checkpoint = gx.Checkpoint(
        name=name,
        validation_definitions=[context.validation_definitions.add_or_update(definition)],
        result_format=RESULT_FORMAT,
    )
    metrics = pd.DataFrame(frame.rows).astype({rule.metric: "float64" for rule in rules})
    outcome = context.checkpoints.add_or_update(checkpoint).run(batch_parameters={"dataframe": metrics})
    (result,) = outcome.run_results.values()
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
    )


def _forget(reports: Path, keep: int) -> None:
    """Delete all but the newest results of each stream and table, oldest first."""
    results = reports / "gx" / "uncommitted" / "validations"
    kept: dict[tuple[str, str], int] = {}
    for run in sorted(results.glob("*/*/*/*.json"), key=lambda path: path.parent.name, reverse=True):
        place = (run.parts[-4], run.name)
        kept[place] = kept.get(place, 0) + 1
        if kept[place] > keep:
            shutil.rmtree(run.parent)
