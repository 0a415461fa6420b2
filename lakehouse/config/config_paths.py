"""Paths of a command's configuration and home, found without reading the whole configuration.

    configuration   --config, else $TIDEMARK_CONFIG, else ./tidemark.toml
    home            --home, else $TIDEMARK_HOME, else `home` in the configuration, else `var` beside it

Paths of options and environment start where the command runs, paths inside the file start at the file's folder. Of a
home on an object store, such as ``s3://bucket/prefix``, the folder is where this machine keeps what it copies from
there, below $TIDEMARK_SCRATCH or ``~/.cache/tidemark/homes``.
Standard library only: what asks a published version must not wait for the rest.
"""

import json
import os
import re
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import quote

from lakehouse.config.problems import ConfigError, Problem
from lakehouse.config.store_address import SCHEMES, SUCH_AS, is_place

CONFIG_NAME = "tidemark.toml"
DEFAULT_HOME = "var"
# Of a dotted key; a table of a stream's source has five.
_MOST_PARTS = 100
# A URL of any kind, of which a path has lost a slash.
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def config_file(option: Path | None = None) -> Path:
    """Return the absolute path of the configuration, whether or not it is there."""
    return (option or Path(os.environ.get("TIDEMARK_CONFIG") or CONFIG_NAME)).expanduser().resolve()


def given_home(option: Path | None = None) -> Path | None:
    """Return the absolute home that an option or the environment gives, None where neither does."""
    given = option or os.environ.get("TIDEMARK_HOME")
    return located(given, Path()) if given else None


def located(home: str | Path, folder: Path) -> Path:
    """Return the absolute folder of a home; a relative one starts at ``folder``.

    Of one on a store it is this machine's, made where it is not there, with the file that says where tables are.
    Raises ConfigError when it begins as a URL and names no place on a store; what may hold a secret is not told.
    """
    url = store_url(home)
    if url is None and _URL.match(str(home)):
        expected = "a folder, or one such as " + ", ".join(f"{each}/prefix" for each in SUCH_AS.values())
        raise ConfigError("home", [Problem("home", "a URL that is no place on a store", expected)])
    if url is None:
        return (folder / Path(home).expanduser()).resolve()
    if not is_place(url):
        scheme = url.partition("://")[0]
        raise ConfigError(
            "home", [Problem("home", f"no place at {scheme}://", f"{SUCH_AS[scheme]}/prefix, without a user")]
        )
    scratch = Path(os.environ.get("TIDEMARK_SCRATCH") or "~/.cache/tidemark/homes").expanduser().resolve()
    found = scratch / quote(url.removeprefix("s3://"), safe="")
    told = found / "tables.json"
    if not told.exists():
        found.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = found / f".tables.json.{os.getpid()}"
        draft.write_text(json.dumps({"path": url}) + "\n", "utf-8")
        draft.replace(told)
    return found


def store_url(home: str | Path) -> str | None:
    """Return the URL of a home on a store, of which a path has lost a slash; None of one in a folder."""
    scheme, _, place = str(home).partition(":/")
    return f"{scheme}://{place.strip('/')}" if scheme in SCHEMES else None


def home_folder(home: Path | None = None, config: Path | None = None) -> Path:
    """Return the absolute home; the configuration is only opened when nothing else gives one.

    Raises ConfigError when a configuration was named and is not there, or it is no TOML.
    """
    given = given_home(home)
    if given:
        return given
    path = config_file(config)
    inside = _home_in(path, is_named=bool(config or os.environ.get("TIDEMARK_CONFIG")))
    return located(inside, path.parent)


def read_toml(path: Path) -> dict[str, Any]:
    """Return what a configuration says, as TOML has it; editors that begin a file with a mark of its encoding may.

    Raises ConfigError when it is no TOML, or nested or dotted as no configuration is.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        # The reader takes the square of their number.
        if any(line.partition("=")[0].count(".") >= _MOST_PARTS for line in text.splitlines()):
            raise ValueError(f"a key of more than {_MOST_PARTS} parts")
        return tomllib.loads(text)
    except RecursionError:
        raise ConfigError(str(path), [Problem("file", "values too deep in each other", "TOML")]) from None
    except ValueError as error:
        raise ConfigError(str(path), [Problem("file", str(error), "TOML")]) from error


def _home_in(path: Path, is_named: bool) -> str:
    if not path.is_file():
        if is_named:
            raise ConfigError(
                str(path), [Problem("file", "none", "a configuration; `tidemark init` writes one")]
            )
        return DEFAULT_HOME
    content = read_toml(path)
    home = content.get("home", DEFAULT_HOME)
    if not isinstance(home, str):
        raise ConfigError(str(path), [Problem("home", repr(home), "the path of a folder")])
    return home
