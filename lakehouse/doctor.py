"""Checks that a machine can run Tidemark: each check with what was found and how to mend it.

Nothing heavy is imported: versions come from the packages' metadata, so a broken package can still be told about.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.config.config_paths import config_file, home_folder
from lakehouse.config.problems import ConfigError
from lakehouse.home_checks import NAMED, Finding, State, examine_home
from lakehouse.storage.layout import Home
from lakehouse.storage.ownership import is_private
from lakehouse.storage.tables.integrity import damage_in, tables_of

if TYPE_CHECKING:
    from lakehouse.settings import Settings

PYTHONS = ((3, 11), (3, 14))
JAVAS = (17, 21)
# Known to work together; Spark's patch releases have broken Delta before, and Spark 4.2 breaks Great Expectations.
EXACT = {
    "pyspark": "4.1.3",
    "delta-spark": "4.4.0",
    "deltalake": "1.6.6",
    "duckdb": "1.5.5",
    "great-expectations": "1.24.1",
    "apache-airflow": "3.3.2",
    "bokeh": "3.9.2",
    "promql-parser": "0.12.0",
    "openlineage-python": "1.52.0",
}
AIRFLOW_PORT = 8080
LITTLE_SPACE, NO_SPACE = 2 * 1024**3, 200 * 1024**2
NETWORK_FILE_SYSTEMS = ("nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs")
_SETUP = "run `make setup`"


def examine(config: Path | None = None, home: Path | None = None) -> list[Finding]:
    """Check everything that a run, an answer and Airflow need; takes about a second, most of it Java's start.

    Where the configuration names a cluster, a session is started on it and its workers are looked at: longer.
    """
    settings = _settings(config, home)
    findings = [_python(), _java(), *_versions(), _jars(), _class_archive()]
    findings += [_port(AIRFLOW_PORT), _config(config, home), *_home(config, home, settings)]
    if settings is None:
        return findings
    findings += [*_control(settings), *_stores(settings), *_store_of_tables(settings)]
    return [*findings, *_spark(settings)]


def _python() -> Finding:
    found = ".".join(map(str, sys.version_info[:3]))
    low, high = PYTHONS
    if low <= sys.version_info[:2] < high:
        return Finding("python", "ok", f"{found} at {sys.executable}")
    return Finding(
        "python", "wrong", found, "use Python 3.11, 3.12 or 3.13: `make setup PYTHON=/path/to/python3.12`"
    )


def _java() -> Finding:
    install = (
        "install Java 17 (Debian, Ubuntu: apt-get install openjdk-17-jre-headless), or set JAVA_HOME to one"
    )
    folder = os.environ.get("JAVA_HOME")
    java = str(Path(folder) / "bin" / "java") if folder else shutil.which("java")
    where = f"JAVA_HOME {folder}" if folder else "PATH"
    if java is None or not Path(java).is_file():
        return Finding("java", "wrong", f"no java in {where}", install)
    try:
        printed = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=30, check=False
        ).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("java", "wrong", f"{java} does not start: {error}", install)
    version = re.search(r'version "((\d+)[^"]*)"', printed)
    if version is None or int(version[2]) not in JAVAS:
        return Finding(
            "java", "wrong", f"{java} says {printed.strip().splitlines()[:1] or 'nothing'}", install
        )
    return Finding("java", "ok", f"{version[1]} at {java}")


def _installed(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _versions() -> Iterator[Finding]:
    for package, expected in EXACT.items():
        found = _installed(package)
        fix = "" if found == expected else f"expected {expected}: {_SETUP}"
        yield Finding(package, "wrong" if fix else "ok", found or "not installed", fix)
    pandas = _installed("pandas") or "not installed"
    is_old = pandas.split(".")[0] in ("1", "2")
    yield Finding(
        "pandas", "ok" if is_old else "wrong", pandas, "" if is_old else f"expected below 3: {_SETUP}"
    )
    client = _installed("pyspark-client")
    if client:
        fix = f"its files overwrite pyspark's: uninstall it and apache-airflow-providers-apache-spark, then {_SETUP}"
        yield Finding("pyspark-client", "wrong", client, fix)


def _jars() -> Finding:
    from lakehouse.spark.jars import damaged_jars, jars_folder, missing_jars

    problems = [f"missing {coordinates}" for coordinates in missing_jars()]
    problems += [f"damaged {path}" for path in damaged_jars()]
    if problems:
        return Finding("jars", "wrong", ", ".join(problems), "run `python -m lakehouse.spark.jars`")
    return Finding("jars", "ok", str(jars_folder()))


def _class_archive() -> Finding:
    from lakehouse.spark.archived_classes import archive_file

    kept = archive_file()
    if kept.is_file():
        return Finding("class archive", "ok", str(kept))
    fix = "run `python -m infra.class_archive`: jobs start in two thirds of the time"
    return Finding("class archive", "warning", f"no {kept}", fix)


def _port(port: int) -> Finding:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As a server binds: a connection that is still closing does not make the port taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            fix = f"`tidemark airflow` needs it: stop what listens there (`ss -ltnp sport = :{port}`)"
            return Finding(f"port {port}", "warning", f"taken ({error.strerror})", fix)
    return Finding(f"port {port}", "ok", "free, for Airflow's pages")


def _config(config: Path | None, home: Path | None) -> Finding:
    path = config_file(config)
    if not path.is_file():
        return Finding(
            "configuration", "warning", f"no {path}", "run `tidemark init`, or name it with --config"
        )
    from lakehouse.settings import load_settings
    from lakehouse.storage.control.schema import OtherVersion

    try:
        settings = load_settings(config, home)
    except (ConfigError, OtherVersion) as error:
        return Finding("configuration", "wrong", str(error), f"mend {path}")
    streams = ", ".join(settings.streams) or "none"
    return Finding("configuration", "ok", f"{path}; streams: {streams}")


def _control(settings: Settings) -> Iterator[Finding]:
    """Say where the control store is, and whether it answers; nothing where a home has none yet."""
    from lakehouse.storage.control.database import ControlUnreachable
    from lakehouse.storage.control.local import LocalStore
    from lakehouse.storage.control.schema import OtherVersion
    from lakehouse.storage.control.session import examined
    from lakehouse.storage.control.store import FILE
    from lakehouse.storage.damaged import DamagedFile

    store = LocalStore(settings.home / FILE)
    fix = "start that database, or mend its URL in TIDEMARK_CONTROL" if settings.control else "as it says"
    try:
        if settings.control:
            yield Finding("control", "ok", examined(settings.control.get_secret_value()))
        elif store.path.exists():
            yield Finding("control", "ok", store.examined())
    except (ControlUnreachable, OtherVersion, DamagedFile) as error:
        yield Finding("control", "wrong", str(error), fix)


def _stores(settings: Settings) -> Iterator[Finding]:
    """Say of each stream that lands on an object store whether this answers."""
    from lakehouse.config.store_address import is_remote

    remote = {name: each.source for name, each in settings.streams.items() if is_remote(each.source.path)}
    if not remote:
        return
    from lakehouse.ingest.sources.files import matching
    from lakehouse.storage.stores.store_access import StoreUnavailable

    for name, source in remote.items():
        try:
            first = next(matching(source), None)
        except StoreUnavailable as error:
            fix = (
                "mend the path or endpoint, or what the environment says of credentials; other streams go on"
            )
            yield Finding(f"store of {name}", "wrong", str(error), fix)
            continue
        found = f"{source.path}: " + (f"the first object is {first[0]}" if first else "no object yet")
        yield Finding(f"store of {name}", "ok", found)


def _store_of_tables(settings: Settings) -> Iterator[Finding]:
    """Race writers against the store that has the tables; nothing where they are in the home."""
    place = settings.layout.on_store
    if place is None:
        return
    from lakehouse.spark.jars import missing_jars, reaches
    from lakehouse.storage.stores.store_access import ObjectUnread, StoreUnavailable
    from lakehouse.storage.stores.store_race import ROUNDS, WRITERS, winners

    scheme = place.address.scheme
    if missing := missing_jars(store=scheme):
        fix = f"run `python -m lakehouse.spark.jars --{scheme}`"
        found = ", ".join(missing)
        yield Finding("jars of stores", "wrong" if scheme == "s3" else "warning", found, fix)
    elif not reaches(scheme):
        found = f"Spark has no connector to {scheme}://: `tidemark spark` needs one, jobs do not"
        yield Finding("jars of stores", "warning", found, "name one in [spark.options]")
    try:
        won = winners(place)
    except (StoreUnavailable, ObjectUnread) as error:
        fix = "mend [tables] path, or what the environment says of endpoint and credentials"
        yield Finding("store of tables", "wrong", str(error), fix)
        return
    if wrong := [each for each in won if each != 1]:
        found = (
            f"{place}: of {WRITERS} writers of one new object {max(wrong)} succeeded: commits would be lost"
        )
        yield Finding(
            "store of tables",
            "wrong",
            found,
            "use a store that writes an object only where there is none, such as S3",
        )
    else:
        yield Finding("store of tables", "ok", f"{place}: one of {WRITERS} writers won, {ROUNDS} times")


def _spark(settings: Settings) -> Iterator[Finding]:
    """Say where Spark runs, and whether its workers are as this driver is."""
    own = settings.spark
    if own.is_local:
        yield Finding("spark", "ok", f"{own.master}: inside each job's process")
        return
    if own.is_standalone and own.secret is None:
        fix = "give master and workers spark.authenticate.secret, and this process the same as TIDEMARK_SPARK__SECRET"
        yield Finding("spark secret", "warning", "none: whoever reaches the cluster may run code on it", fix)
    from lakehouse.spark.cluster import described
    from lakehouse.spark.session import send_words_to, started_session

    # What is wrong is in the error; the rest is what a JVM says whenever it starts.
    send_words_to(os.open(os.devnull, os.O_WRONLY))
    try:
        found = described(started_session(settings))
    except Exception as error:
        told = str(error).strip().splitlines()[0]
        yield Finding("spark", "wrong", told, f"start {own.master}, and make its workers as this machine is")
        return
    yield Finding(
        "spark", "ok", f"{own.master}; " + ", ".join(f"{name} {value}" for name, value in found.items())
    )


def _home(config: Path | None, home: Path | None, settings: Settings | None) -> Iterator[Finding]:
    try:
        folder = home_folder(home, config)
    except ConfigError as error:
        yield Finding("home", "wrong", str(error), "name a folder with --home")
        return
    present = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        with tempfile.NamedTemporaryFile(dir=present, prefix=".tidemark-doctor-"):
            yield Finding(
                "home", "ok", f"{folder}{'' if present == folder else ' (not there yet)'}, writable"
            )
    except OSError as error:
        yield Finding(
            "home", "wrong", f"{folder}: {error}", "make it a writable folder, or name another with --home"
        )
        return
    if present == folder and not is_private(folder):
        yield Finding(
            "privacy",
            "warning",
            f"other users of this machine may read {folder}",
            f"chmod -R go-rwx {folder}; what is made from now on is its owner's alone",
        )
    yield _disk(present)
    layout = settings.layout if settings else Home(folder)
    yield _tables(layout)
    yield from examine_home(layout, settings)


def _settings(config: Path | None, home: Path | None) -> Settings | None:
    """Return the settings, None where they cannot be read."""
    from lakehouse.settings import load_settings
    from lakehouse.storage.control.schema import OtherVersion

    try:
        return load_settings(config, home)
    except (ConfigError, OtherVersion):
        return None


def _tables(layout: Home) -> Finding:
    """Compare every file of the tables with what their logs say of it."""
    tables = tables_of(layout)
    damage = list(islice(damage_in(tables), NAMED))
    if damage:
        return Finding("tables", "wrong", "; ".join(damage), "do what is said of each file")
    return Finding("tables", "ok", f"{len(tables)}, each file whole")


def _disk(folder: Path) -> Finding:
    free, kind = shutil.disk_usage(folder).free, _file_system(folder)
    found = f"{free / 1024**3:.1f} GiB free on {kind}"
    if kind in NETWORK_FILE_SYSTEMS:
        return Finding(
            "disk",
            "warning",
            found,
            "use a local disk: locks and renames must hold for all at once",
        )
    if free < LITTLE_SPACE:
        state: State = "wrong" if free < NO_SPACE else "warning"
        return Finding(
            "disk", state, found, f"free some space: runs want {LITTLE_SPACE // 1024**3} GiB or more"
        )
    return Finding("disk", "ok", found)


def _file_system(folder: Path) -> str:
    """Return the type of the file system that holds the folder, ``an unknown file system`` where none is told."""
    try:
        mounts = Path("/proc/mounts").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return "an unknown file system"
    points = {fields[1]: fields[2] for fields in (line.split() for line in mounts) if len(fields) > 2}
    holders = [str(path) for path in (folder, *folder.parents) if str(path) in points]
    return points[holders[0]] if holders else "an unknown file system"
