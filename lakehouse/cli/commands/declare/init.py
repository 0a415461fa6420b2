"""``tidemark init``: write a commented configuration with two queries, and create an empty home."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from lakehouse.cli.options import AsJson, WrongUsage, globals_of
from lakehouse.cli.output import print_json

_FOLDER = Path(__file__).with_name("starter")
STARTER = _FOLDER / "tidemark.toml"
QUERIES = tuple(_FOLDER / f"{name}.sql" for name in ("warm_and_dry", "warmer_neighbours"))

EXAMPLES = ("tidemark init", "tidemark --config site/tidemark.toml --home /data/tidemark init")


def init(
    context: typer.Context,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing configuration.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a commented tidemark.toml and two queries.

    Also creates the empty home. The file declares the two streams that `tidemark simulate` writes. An existing
    configuration is kept unless --force is given; the contents of the home are never touched.
    """
    from lakehouse.config.config_paths import DEFAULT_HOME, given_home

    given = globals_of(context)
    config, chosen = given.config_file(), given_home(given.home)
    if config.exists() and not force:
        raise WrongUsage(f"{config} is there already; --force replaces it")
    home = chosen or config.parent / DEFAULT_HOME
    config.parent.mkdir(parents=True, exist_ok=True)
    home.mkdir(parents=True, exist_ok=True)
    config.write_text(starter(str(chosen) if chosen else DEFAULT_HOME), encoding="utf-8")
    folder = config.parent / "queries"
    folder.mkdir(exist_ok=True)
    for query in QUERIES:
        (folder / query.name).write_text(query.read_text(encoding="utf-8"), encoding="utf-8")
    _tell(config, home, [folder / query.name for query in QUERIES], as_json)


def starter(home: str) -> str:
    """Return the starting configuration with its home."""
    escaped = home.replace("\\", "\\\\").replace('"', '\\"')
    return STARTER.read_text(encoding="utf-8").format(home=escaped)


def _tell(config: Path, home: Path, queries: Sequence[Path], as_json: bool) -> None:
    if as_json:
        print_json({"config": str(config), "home": str(home), "queries": [str(query) for query in queries]})
        return
    print(f"wrote {config}")
    for query in queries:
        print(f"query {query}")
    print(f"home  {home}\nnext: tidemark simulate, then tidemark run")
