"""``tidemark add``: declare a stream by looking at its files, or at messages of its topic."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.options import AsJson, WrongUsage, globals_of
from lakehouse.cli.output import print_json, print_line, print_table

if TYPE_CHECKING:
    from lakehouse.propose.declaration import Proposal
    from lakehouse.propose.trial import Trial

EXAMPLES = (
    "tidemark add data.csv",
    "tidemark add landing/meters --name meters --timezone Europe/Berlin",
    "tidemark add data.csv --dry-run",
    "tidemark add readings --servers broker:9092",
)
_TRIED_ROWS = 100_000
_SECRET = re.compile("password|secret|token")


def add(
    context: typer.Context,
    path: Annotated[Path, typer.Argument(help="A file, a folder of files of one kind, or a topic.")],
    name: Annotated[str, typer.Option(help="Name of the stream [default: that of the file or folder].")] = "",
    timezone: Annotated[str, typer.Option(help="Zone of the clock that wrote times without an offset.")] = "",
    servers: Annotated[str, typer.Option(help="Of a topic: where Kafka's brokers are, by commas.")] = "",
    option: Annotated[
        list[str] | None, typer.Option(help="Of a topic: an option of the client, NAME=VALUE; $'{VARIABLE}'.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the declaration; write nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Declare a stream by looking at its files, or at messages of its topic.

    Looks at the beginning, the middle and the end of a file, and of a folder at the first, middle and last file:
    encoding, separator, header, the event time, types, keys, measures and counters. Of a topic (--servers) it looks at
    the first and the last messages of each partition. The declaration is appended to
    tidemark.toml with comments on what is not sure, and tried on these files. Nothing is ingested.
    """
    from lakehouse.config.config_paths import read_toml
    from lakehouse.propose.columns import plain_name

    config = globals_of(context).config_file()
    chosen = name or plain_name(path.name.split(".")[0], "stream", "s_")
    if config.is_file() and chosen in read_toml(config).get("streams", {}):
        raise WrongUsage(f"{config} declares a stream {chosen!r} already; --name gives another one")
    if servers:
        proposal, trial = _of_topic(str(path), servers, option or [], chosen, config.parent, timezone)
    else:
        proposal, trial = _of_files(path, _files(path), chosen, config.parent, timezone)
    if not dry_run:
        _append(config, proposal.toml())
    if as_json:
        facts = {"stream": proposal.name, "config": None if dry_run else str(config), "toml": proposal.toml()}
        print_json(facts | {"doubts": list(proposal.doubts), "trial": trial.as_dict()})
        return
    _print(proposal, trial, None if dry_run else config)


def _of_files(
    path: Path, files: list[Path], name: str, folder: Path, timezone: str
) -> tuple[Proposal, Trial]:
    from lakehouse.propose.trial import tried

    proposal = _proposed(path, files, name, folder, timezone)
    return proposal, tried(proposal.stream(folder), files, _TRIED_ROWS)


def _of_topic(
    topic: str, servers: str, options: list[str], name: str, folder: Path, timezone: str
) -> tuple[Proposal, Trial]:
    from tempfile import TemporaryDirectory

    from lakehouse.ingest.sources.kafka import BrokerFailed, VariableMissing
    from lakehouse.propose.sample import NothingToRead
    from lakehouse.propose.topic import of_topic, source_of, write_sample

    try:
        source = source_of(topic, servers.split(","), dict(map(_option, options)))
        with TemporaryDirectory() as sampled:
            file = write_sample(source, Path(sampled))
            proposal, trial = _of_files(file, [file], name, Path(sampled), timezone)
        proposal = of_topic(proposal, source)
    except (NothingToRead, BrokerFailed, VariableMissing, ValueError) as error:
        raise WrongUsage(str(error)) from None
    proposal.stream(folder)
    return proposal, trial


def _option(text: str) -> tuple[str, str]:
    name, is_one, value = text.partition("=")
    if not is_one:
        raise WrongUsage(f"--option {text}: expected NAME=VALUE, such as security.protocol=SASL_SSL")
    if _SECRET.search(name) and "${" not in value:
        # It would be in the declaration, and in the shell's history.
        raise WrongUsage(
            f"--option {name}: a secret comes from the environment; expected {name}='${{VARIABLE}}'"
        )
    return name, value


def _files(path: Path) -> list[Path]:
    """Return a file, or of a folder the first, the middle and the last file of its first file's kind."""
    if not path.is_dir():
        if not path.is_file():
            raise WrongUsage(f"{path}: no such file or folder")
        return [path]
    files = sorted(entry for entry in path.iterdir() if entry.is_file() and not entry.name.startswith("."))
    if not files:
        raise WrongUsage(f"{path}: no file in it")
    files = [file for file in files if file.name.endswith(_ending(files[0]))]
    return [files[number] for number in sorted({0, len(files) // 2, len(files) - 1})]


def _proposed(path: Path, files: list[Path], name: str, folder: Path, timezone: str) -> Proposal:
    from lakehouse.propose.declaration import proposal_of
    from lakehouse.propose.sample import NothingToRead, sample_of

    try:
        sample, *others = map(sample_of, files)
        return proposal_of(name, sample, _source_path(path, folder, files[0]), timezone, others)
    except NothingToRead as error:
        raise WrongUsage(str(error)) from None


def _ending(file: Path) -> str:
    from lakehouse.ingest.sources.compressed import is_compressed

    return "".join(file.suffixes[-2:] if is_compressed(file.name) else file.suffixes[-1:])


def _source_path(path: Path, folder: Path, file: Path) -> str:
    """Return what the source reads, from the configuration's folder where it is below it."""
    whole = (path / f"*{_ending(file)}" if path.is_dir() else path).absolute()
    escaped = str(whole) if path.is_dir() else re.sub(r"([*?[])", r"[\1]", str(whole))
    inside = os.path.relpath(escaped, folder.absolute())
    return escaped if inside.startswith("..") else inside


def _append(config: Path, text: str) -> None:
    from lakehouse.config.config_paths import DEFAULT_HOME
    from lakehouse.storage.atomic_files import write_text

    before = config.read_text(encoding="utf-8-sig") if config.is_file() else f'home = "{DEFAULT_HOME}"\n'
    config.parent.mkdir(parents=True, exist_ok=True)
    write_text(config, before.rstrip("\n") + "\n\n" + text)


def _print(proposal: Proposal, trial: Trial, config: Path | None) -> None:
    from lakehouse.cli.commands.declare.check import print_trial

    shown = [
        (
            " ".join(proposal.time.names),
            "event time",
            _reading(proposal),
            proposal.sample.column(proposal.time.names[0])[0],
        )
    ]
    for column in proposal.columns:
        spelling = ", ".join(
            f"{key} {value}"
            for key, value in column.declared.items()
            if key not in ("type", "path", "position")
        )
        shown.append(
            (column.title, column.role, f"{column.declared['type']} {spelling}".strip(), column.example)
        )
    print_table(
        ("column", "is", "read as", "such as"),
        shown,
        title=f"{proposal.name}: {proposal.sample.path}",
        verbatim=True,
    )
    for doubt in proposal.doubts:
        print_line(f"not sure: {doubt}")
    print_trial(proposal.name, trial)
    if config is None:
        print(f"\n{proposal.toml()}", end="")
    else:
        measure = "".join(f" {measure}" for measure in proposal.table.get("measures", ())[:1])
        print_line(f"added to {config}; next: tidemark run && tidemark plot {proposal.name}{measure}")


def _reading(proposal: Proposal) -> str:
    declared = proposal.time.declared
    reading = f"format {declared['format']}" if "format" in declared else str(declared["unit"])
    return f"{reading}, {declared['timezone']}" if "timezone" in declared else reading
