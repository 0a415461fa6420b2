"""Every place of the product that hashes something, and why equal hashes decide nothing wrong there.

Keys, rows and identities come from whoever sends data, who can make other ones of the same 64-bit hash. So values are
compared behind such a hash, or it has 128 bits that nobody finds another text for, or a mistake costs time alone.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("lakehouse", "jobs", "dags", "quality", "infra")
CALLS = frozenset(
    {"hash", "xxhash64", "blake2b", "blake2s", "sha1", "sha224", "sha256", "sha384", "sha512", "md5"}
    | {
        "crc32",
        "adler32",
        "file_digest",
        "hash_of",
        "bucket_of",
        "with_integers",
        "with_halves",
        "with_doubles",
    }
    | {"with_bytes", "approx_count_distinct", "_sha256"}
)
IN_SQL = re.compile(r"\b(?:hash|xxhash64|md5(?:_number\w*)?|sha1|sha256|approx_count_distinct|row_hash)\s*\(")
LIKELY = re.compile("|".join(sorted(CALLS)))

BUCKET = "a bucket, in which rows are grouped by value"
LABEL = "a short name of a row for people, by which nothing is decided"
COMPARED = "candidates, which are compared by value"
WHOLE = "at least 128 bits of a cryptographic hash"
SKETCH = "an estimate of how many values differ, which is published with its error"
ENTRIES = {
    "infra/class_archive.py": "the time of a package's files; no data of users",
    "lakehouse/algorithms/ingest/identity_hash.py": "makes hashes for the places below",
    "lakehouse/algorithms/profile/number_kernels.py": SKETCH,
    "lakehouse/algorithms/profile/run_kernels.py": SKETCH,
    "lakehouse/checks/column_figures.py": SKETCH,
    "lakehouse/checks/kept_falls.py": "meters of some hashes are looked at; they are numbered by value (`Meters.of`)",
    "lakehouse/checks/repeats.py": BUCKET,
    "lakehouse/checks/time_nodes.py": BUCKET,
    "lakehouse/cli/pages/chart_page.py": WHOLE,
    "lakehouse/collect/repeats.py": WHOLE,
    "lakehouse/ingest/identities/batch_identities.py": COMPARED,
    "lakehouse/ingest/identities/identities.py": "candidates, which are compared by value; of rows that are gone 128"
    " bits of the identity, and 64 of the content, by which a repeat is a duplicate or a conflict, and never accepted",
    "lakehouse/ingest/parser/parser.py": WHOLE,
    "lakehouse/ingest/profile_parts.py": SKETCH,
    "lakehouse/ingest/sources/appended.py": WHOLE,
    "lakehouse/ingest/sources/landed_content.py": WHOLE,
    "lakehouse/ingest/sources/listing.py": "whether to look again; a secret of the process is in it, and the next file"
    " changes it",
    "lakehouse/ingest/sources/packets.py": WHOLE,
    "lakehouse/queries/aggregate/alarms.py": WHOLE,
    "lakehouse/queries/aggregate/checks.py": BUCKET,
    "lakehouse/queries/aggregate/revise.py": BUCKET,
    "lakehouse/queries/aggregate/rows.py": BUCKET,
    "lakehouse/queries/aggregate/value_codes.py": COMPARED,
    "lakehouse/queries/multiway/places.py": LABEL,
    "lakehouse/queries/multiway/rows.py": "where rows meet; keys are numbered by value there (`as_joined`)",
    "lakehouse/queries/multiway/windows.py": "where rows meet; keys are numbered by value there (`as_joined`)",
    "lakehouse/queries/pairs/bucket.py": LABEL,
    "lakehouse/queries/pairs/rows.py": "where rows meet; keys of pairs are compared by value (`with_equal_keys`)",
    "lakehouse/queries/runtime/tables.py": "makes hashes for the places above, and of a row a short name for people",
    "lakehouse/queries/runtime/tasks/arrow_sql.py": "makes hashes for the places above",
    "lakehouse/rollup/old_nodes.py": BUCKET,
    "lakehouse/rollup/raw_nodes.py": BUCKET,
    "lakehouse/serving/publish/drift.py": "a check of two files that were made of the same rows; what it overlooks"
    " changes no answer",
    "lakehouse/serving/publish/snapshot.py": WHOLE,
    "lakehouse/serving/segments/shared_rows.py": WHOLE,
    "lakehouse/simulator/simulate.py": "a seed of random numbers",
    "lakehouse/spark/jars.py": WHOLE,
    "lakehouse/spark/noted_rows.py": COMPARED,
    "lakehouse/spark/package_archive.py": WHOLE,
    "lakehouse/spark/row_hash.py": "makes hashes for the places above",
    "lakehouse/storage/control/manifests.py": "a checksum against damage of a disk",
    "lakehouse/storage/control/session.py": "the number of a lock; leases of one number wait for each other",
    "lakehouse/storage/identity_copies.py": WHOLE,
    "lakehouse/storage/stores/store_files.py": "`__hash__` of an object, beside its `__eq__`",
    "lakehouse/storage/stores/store_path.py": WHOLE,
    "lakehouse/web/events/posting.py": WHOLE,
    "lakehouse/web/page.py": "a version of the page's own files",
    "lakehouse/web/responses.py": WHOLE,
    "lakehouse/web/security/audit.py": WHOLE,
    "lakehouse/web/security/tokens.py": WHOLE,
}


def _texts(tree: ast.Module) -> Iterator[str]:
    """Yield texts that are no docstrings."""
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    explained = {id(node.body[0].value) for node in ast.walk(tree) if isinstance(node, owners) and node.body
                 and isinstance(node.body[0], ast.Expr)}  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in explained:
            yield node.value


def _called(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        elif isinstance(node, ast.Attribute):
            # Passed on, as ``hashlib.sha256`` to ``hmac.new`` is.
            yield node.attr if isinstance(node.value, ast.Name) and node.value.id == "hashlib" else ""


def hashing(source: str) -> bool:
    """True if a module hashes something, itself or in SQL."""
    if not LIKELY.search(source):
        return False
    tree = ast.parse(source)
    return not CALLS.isdisjoint(_called(tree)) or any(map(IN_SQL.search, _texts(tree)))


def test_every_place_that_hashes_says_why_equal_hashes_decide_nothing_wrong() -> None:
    paths = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    found = {path.relative_to(ROOT).as_posix() for path in paths if hashing(path.read_text(encoding="utf-8"))}
    of_sql = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "sql").rglob("*.sql")
        if IN_SQL.search(re.sub(r"--.*", "", path.read_text(encoding="utf-8")))
    }
    assert found | of_sql == set(ENTRIES)


@pytest.mark.parametrize(
    ("source", "is_one"),
    [
        ("def f(rows):\n    return xxhash64(rows, 1)", True),
        ("import hashlib\nhmac.new(b'', b'', hashlib.sha256)", True),
        ("asked = 'SELECT hash(a) FROM t'", True),
        ("asked = f'SELECT hash({a}) FROM t'", True),
        ("def f():\n    'Return hash(a).'\n", False),
        ("def f(a):\n    return hashed(a)", False),
    ],
)
def test_what_hashes_is_seen(source: str, is_one: bool) -> None:
    assert hashing(source) is is_one
