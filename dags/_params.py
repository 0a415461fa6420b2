"""Parameters of DAGs, typed and described."""

from airflow.sdk import Param

_NAMES = r"^[a-z][a-z0-9_]*(\s*,\s*[a-z][a-z0-9_]*)*$"


def names_of(what: str) -> Param:
    """Return a parameter that names some of what a DAG is for."""
    return Param("all", type="string", pattern=_NAMES, description=f"all, or names of {what}")


def range_end(what: str) -> Param:
    """Return a parameter that holds one end of a range of event time, or nothing."""
    description = (
        f"{what}, such as 2026-01-05 or 2026-01-05T06:00+01:00; UTC without an offset; empty: no limit"
    )
    return Param(None, type=["null", "string"], pattern=r"^\d{4}-\d{2}-\d{2}(T.+)?$", description=description)


STREAMS = {"streams": names_of("declared streams with commas between")}
QUERIES = {"queries": names_of("registered queries with commas between; each over the named streams alone")}
RANGE = {
    "from": range_end("first moment of a range to build again"),
    "to": range_end("first moment after that range"),
}


def config(path: str | None) -> dict[str, Param]:
    """Return the parameter that names the configuration."""
    description = "path of tidemark.toml; empty: TIDEMARK_CONFIG, or ./tidemark.toml"
    return {"config": Param(path, type=["null", "string"], description=description)}
