"""The jars that a session needs beyond Spark's own, and where they are kept; no pyspark here, so a check costs nothing.

``jars.lock`` lists them all, dependencies included, each with its SHA-256. ``python -m lakehouse.spark.jars``, part of
``make setup``, fetches them once into ``$TIDEMARK_JARS`` or ``~/.cache/tidemark/jars``; sessions need no network. With
``--s3`` or ``--abfss`` it also fetches those of that lock, which a home with tables on an object store needs.

They come from Maven's local repository where it has them, else from ``$TIDEMARK_MAVEN``, else from the mirror of Maven
Central that ``~/.m2/settings.xml`` names, else from Maven Central, by the Ivy that comes with Spark.
"""

import hashlib
import http.client
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

from lakehouse.storage.atomic_files import replacing

_LOCK = Path(__file__).with_name("jars.lock")
# Of stores that Spark reads and writes, by their scheme.
_STORE_LOCKS = {scheme: Path(__file__).with_name(f"jars_{scheme}.lock") for scheme in ("s3", "abfss")}
_CENTRAL = "Maven Central"
_ATTEMPTS, _TIMEOUT_S = 3, 60


class JarsUnavailable(RuntimeError):
    """A jar could not be had, or is not the one that the lock names."""


@dataclass(frozen=True)
class Jar:
    """One line of the lock."""

    coordinates: str
    sha256: str

    @property
    def path(self) -> Path:
        """Path of the jar."""
        group, artifact, version = self.coordinates.split(":")
        return jars_folder() / "jars" / f"{group}_{artifact}-{version}.jar"

    @property
    def path_in_repository(self) -> str:
        """Path in a Maven repository, below its root."""
        group, artifact, version = self.coordinates.split(":")
        return f"{group.replace('.', '/')}/{artifact}/{version}/{artifact}-{version}.jar"

    def is_kept(self) -> bool:
        """Return whether the file is there and is the one that the lock names."""
        return self.path.is_file() and _sha256(self.path.read_bytes()) == self.sha256


def jars_folder() -> Path:
    """Return the folder below which jars are kept."""
    return Path(os.environ.get("TIDEMARK_JARS") or Path.home() / ".cache" / "tidemark" / "jars")


def locked_jars() -> list[Jar]:
    """Return every jar that all sessions need."""
    return _locked(_LOCK)


def store_jars(scheme: str | None) -> list[Jar]:
    """Return every jar that tables on a kind of object store need beside them; none for those in a home."""
    return _locked(_STORE_LOCKS[scheme]) if scheme in _STORE_LOCKS else []


def reaches(scheme: str) -> bool:
    """True if there are jars by which Spark reads and writes tables on a kind of store."""
    return scheme in _STORE_LOCKS


def _locked(lock: Path) -> list[Jar]:
    lines = lock.read_text(encoding="utf-8").splitlines()
    pairs = [line.split() for line in lines if not line.startswith("#")]
    return [Jar(coordinates, sha256) for sha256, coordinates in pairs]


def jar_paths(*, store: str | None = None) -> list[str]:
    """Return the files of the lock, in the order of the class path; those of stores are behind the archived ones."""
    more = sorted(str(jar.path) for jar in store_jars(store))
    return sorted(str(jar.path) for jar in locked_jars()) + more


def missing_jars(*, store: str | None = None) -> list[str]:
    """Return the coordinates of the jars that are not there; their content is not looked at."""
    jars = locked_jars() + store_jars(store)
    return [jar.coordinates for jar in jars if not jar.path.is_file()]


def damaged_jars() -> list[Path]:
    """Return the files that are there and are not those of the lock. Cost: reads 23 MB."""
    return [jar.path for jar in locked_jars() if jar.path.is_file() and not jar.is_kept()]


def fetch(jar: Jar) -> None:
    """Fetch a jar and keep it; a reader finds all of it or nothing.

    Raises JarsUnavailable when no repository has it, or its hash is another; nothing is kept then.
    """
    local = Path.home() / ".m2" / "repository" / jar.path_in_repository
    content = local.read_bytes() if local.is_file() else b""
    if _sha256(content) != jar.sha256:
        repository = _repository()
        content = _download(f"{repository}/{jar.path_in_repository}") if repository else _from_central(jar)
        _verify(jar, content, repository or _CENTRAL)
    with replacing(jar.path) as file:
        file.write(content)


def _verify(jar: Jar, content: bytes, origin: str) -> None:
    if (found := _sha256(content)) != jar.sha256:
        raise JarsUnavailable(
            f"{jar.path.name}: expected SHA-256 {jar.sha256}, found {found} ({len(content)} bytes of {origin}).\n"
            "The repository, or a proxy before it, sent another file, which was not kept. Try again; if it stays so, "
            "set TIDEMARK_MAVEN to the URL of a repository that can be trusted."
        )


def _download(url: str) -> bytes:
    problem: Exception | None = None
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(attempt)
        try:
            with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:
                return bytes(answer.read())
        # A connection that breaks off is an OSError, or an HTTPException when it breaks off amid an answer.
        except (OSError, http.client.HTTPException) as error:
            problem = error
    raise _unreachable(url, problem)


def _from_central(jar: Jar) -> bytes:
    """Return a jar from Maven Central. Cost: a JVM of two seconds each, since Ivy alone knows where that is."""
    group, artifact, version = jar.coordinates.split(":")
    with TemporaryDirectory() as scratch:
        jar_asked = (
            "-dependency",
            group,
            artifact,
            version,
            "-confs",
            "default",
            "-notransitive",
            "-types",
            "jar",
        )
        kept = ("-error", "-cache", f"{scratch}/cache", "-retrieve", f"{scratch}/[type].[ext]")
        ended = subprocess.run(
            [java_command(), "-jar", _ivy(), *jar_asked, *kept], capture_output=True, text=True, check=False
        )
        fetched = Path(scratch, "jar.jar")
        if ended.returncode or not fetched.is_file():
            raise _unreachable(
                f"{jar.coordinates} from {_CENTRAL}", ended.stderr.strip() or "Ivy found no such jar"
            )
        return fetched.read_bytes()


def java_command() -> str:
    """Return the Java that Spark starts: that of JAVA_HOME, else the first one on the path."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else "java"


def _ivy() -> Path:
    """Return the jar of Ivy among those of Spark."""
    spark = find_spec("pyspark")
    folders = spark.submodule_search_locations if spark else None
    found = [jar for folder in folders or () for jar in Path(folder, "jars").glob("ivy-*.jar")]
    if not found:
        raise JarsUnavailable("Spark's jars have no Ivy to fetch the others with: run `make setup` again.")
    return found[0]


def _unreachable(what: str, problem: object) -> JarsUnavailable:
    return JarsUnavailable(
        f"cannot fetch {what}: {problem}.\nIs this machine online? Behind a proxy set https_proxy; with a mirror of "
        f"Maven Central set TIDEMARK_MAVEN to its URL; or copy {jars_folder()} from a machine that has the jars."
    )


def _repository() -> str | None:
    """Return the URL of the repository that the user names, None for Maven Central itself."""
    url = os.environ.get("TIDEMARK_MAVEN") or next(_mirrors(), None)
    return url.rstrip("/") if url else None


def _mirrors() -> Iterator[str]:
    """Return the URLs of the mirrors of Maven Central that the user's Maven settings name."""
    settings = Path.home() / ".m2" / "settings.xml"
    if not settings.is_file():
        return
    for mirror in ElementTree.parse(settings).iterfind("{*}mirrors/{*}mirror"):
        repositories = mirror.findtext("{*}mirrorOf", "").replace(" ", "").split(",")
        if "!central" not in repositories and {"central", "*", "external:*"} & set(repositories):
            yield mirror.findtext("{*}url", "").strip()


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def main(argv: Sequence[str] = ()) -> int:
    """Fetch what is missing or damaged; with ``--s3`` or ``--abfss`` also what tables on such a store need."""
    jars = locked_jars() + [
        jar for scheme in _STORE_LOCKS if f"--{scheme}" in argv for jar in store_jars(scheme)
    ]
    wanted = [jar for jar in jars if not jar.is_kept()]
    try:
        for number, jar in enumerate(wanted, 1):
            print(f"jar {number} of {len(wanted)}: {jar.coordinates}", flush=True)
            fetch(jar)
    except (JarsUnavailable, OSError, ElementTree.ParseError) as error:
        print(f"jars: {error}", file=sys.stderr)
        return 1
    print(f"{len(jars)} jars are in place: {jars_folder()}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
