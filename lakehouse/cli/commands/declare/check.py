"""``tidemark check``: what a declaration makes of files, without writing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.options import AsJson, WrongUsage, globals_of
from lakehouse.cli.output import print_json, print_line, print_table

if TYPE_CHECKING:
    from lakehouse.propose.trial import Trial

EXAMPLES = (
    "tidemark check",
    "tidemark check telemetry",
    "tidemark check telemetry landing/telemetry/day7.ndjson --json",
)
_EXAMPLE = ("file", "line", "detail", "record")


def check(
    context: typer.Context,
    stream: Annotated[str, typer.Argument(help="A declared stream [default: all].")] = "",
    file: Annotated[
        Path | None, typer.Argument(help="A file to judge [default: those of its source].")
    ] = None,
    rows: Annotated[int, typer.Option(min=1, help="The most rows of each stream to judge.")] = 1_000_000,
    as_json: AsJson = False,
) -> None:
    """Judge files by a declaration, without writing.

    Counts the rows that would be accepted and those of each reason, with examples, the line of the declaration that
    they do not meet, and the values that are missing. Rows that are ingested already are not looked for: a row may
    repeat or revise one of them.
    """
    from lakehouse.config.toml_lines import lines_of
    from lakehouse.propose.trial import add_lines, tried
    from lakehouse.settings import read_settings

    given = globals_of(context)
    settings = read_settings(given.config, given.home)
    if file is not None and not file.is_file():
        raise WrongUsage(f"{file}: no such file")
    chosen = (
        [settings.stream(stream)] if stream else [one for one in settings.streams.values() if one.source.path]
    )
    trials = {declared.name: tried(declared, [file] if file else [], rows) for declared in chosen}
    lines = lines_of(settings.config.read_text("utf-8-sig")) if settings.config else {}
    for declared in chosen:
        add_lines(trials[declared.name], declared, lines)
    if as_json:
        print_json([{"stream": name} | trial.as_dict() for name, trial in trials.items()])
        return
    for name, trial in trials.items():
        print_trial(name, trial, settings.stream(name).revisions is not None)


def print_trial(name: str, trial: Trial, is_revised: bool = False) -> None:
    """Print what a declaration made of files; ``is_revised``: of rows of one identity the newer counts."""
    more = ", and there are more" if trial.is_cut else ""
    print_line(f"{name}: {trial.accepted:,} of {trial.rows:,} rows of {trial.files:,} files accepted{more}")
    if trial.repeated:
        becomes = (
            "the newer one counts" if is_revised else "duplicates, or conflicts if they say something else"
        )
        print_line(f"{trial.repeated:,} have the identity of another accepted row: {becomes}")
    missing = ", ".join(f"{measure} {count:,}" for measure, count in trial.missing.items() if count)
    if missing:
        print_line(f"missing values: {missing}")
    examples = [
        (reason, rejected["rows"], rejected["declared_line"], *(one[name] for name in _EXAMPLE))
        for reason, rejected in trial.reasons.items()
        for one in rejected["examples"]
    ]
    if examples:
        heads = ("reason", "rows", "declared in line", "file", "line", "found", "record")
        print_table(heads, examples, title="rejected")
