"""``tidemark init``: a commented configuration of the two simulated streams, a query over one, and an empty home."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lakehouse.cli.options import AsJson, WrongUsage, globals_of

STARTER = Path(__file__).with_name("starter.toml")
QUERY = Path(__file__).with_name("warmer_neighbours.sql")

EXAMPLES = (
    "tidemark init",
    "tidemark --config site/tidemark.toml --home /data/tidemark init",
)


def init(
    context: typer.Context,
    force: Annotated[bool, typer.Option("--force", help="Replace a configuration that is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a commented tidemark.toml with a query beside it, and create the empty home.

    It declares the two streams that `tidemark simulate` writes. An existing configuration is kept unless
    --force is given; the home's content is never touched.
    """
    from lakehouse.catalog.places import DEFAULT_HOME, given_home

    given = globals_of(context)
    config, chosen = given.config_file(), given_home(given.home)
    if config.exists() and not force:
        raise WrongUsage(f"{config} is there already; --force replaces it")
    home = chosen or config.parent / DEFAULT_HOME
    config.parent.mkdir(parents=True, exist_ok=True)
    home.mkdir(parents=True, exist_ok=True)
    config.write_text(starter(str(chosen) if chosen else DEFAULT_HOME), encoding="utf-8")
    query = config.parent / "queries" / QUERY.name
    query.parent.mkdir(exist_ok=True)
    query.write_text(QUERY.read_text(encoding="utf-8"), encoding="utf-8")
    _tell(config, home, query, as_json)


def starter(home: str) -> str:
    """Return the starting configuration with its home."""
    escaped = home.replace("\\", "\\\\").replace('"', '\\"')
    return STARTER.read_text(encoding="utf-8").format(home=escaped)


def _tell(config: Path, home: Path, query: Path, as_json: bool) -> None:
    from lakehouse.cli.output import print_json

    if as_json:
        print_json({"config": str(config), "home": str(home), "query": str(query)})
    else:
        print(f"wrote {config}\nquery {query}\nhome  {home}\nnext: tidemark simulate, then tidemark run")
