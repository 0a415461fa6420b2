"""Members of JSON records by dotted path, as Spark expressions: how they are read, and what keeps them from being read.

Spark's parser gives the last of several members of one name, and nothing for what a path expects inside a list or a
number. Both would lose values silently, so such records are rejected. A record is parsed again for that only if its
text, or a missing value, makes a fault possible.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakehouse.streams.sources.verdicts import repeated

Path = tuple[str, ...]
# A member's name that is written with escapes, and so not as it is looked for.
_ESCAPED_NAME = r'\\.[^"]*"\s*:'


def parsed(text: Column, schema: T.DataType) -> Column:
    """Return the one record of a text, null where it is none; whatever follows it in the text is seen too."""
    records = F.from_json(F.concat(F.lit("["), text, F.lit("]")), T.ArrayType(schema))
    return F.when(F.size(records) == 1, F.get(records, F.lit(0)))


def at(value: Column, parts: Sequence[str]) -> Column:
    """Return a member of members of a struct."""
    for part in parts:
        value = value[part]
    return value


def schema_of_paths(paths: Iterable[str], explode: str | None) -> T.StructType:
    """Return the nested schema of strings that holds all paths; the exploded path is a list of structs."""
    tree: dict[str, Any] = {}
    for path in dict.fromkeys(paths):
        node = tree
        *parents, leaf = path.split(".")
        for parent in parents:
            node = node.setdefault(parent, {})
        node.setdefault(leaf, {})
    if explode:
        node = tree
        for part in explode.split("."):
            node = node.setdefault(part, {})
    return _struct(tree, "", explode)


def _struct(tree: dict[str, Any], prefix: str, explode: str | None) -> T.StructType:
    fields = []
    for name, children in tree.items():
        path = f"{prefix}{name}"
        inner: T.DataType = _struct(children, f"{path}.", explode) if children else T.StringType()
        fields.append(T.StructField(name, T.ArrayType(inner) if path == explode else inner))
    return T.StructType(fields)


def repeated_in(text: Column, paths: Sequence[str], explode: str | None) -> Column:
    """Return the verdict on a record in which a member that a path leads to or through is there several times."""
    return repeated_member(text, _children(_wanted(paths, explode)), _parts(explode))


def beside_paths(text: Column, paths: Sequence[str], explode: str | None) -> Column:
    """Return the verdict on a record that has something else than an object where a path leads through.

    Reads the columns ``json`` (the record), and, where a list is exploded, ``item`` and ``place``.
    """
    listed = _parts(explode)
    verdicts = [_beside_path(text, path, listed) for path in _parents(_wanted(paths, explode), listed)]
    return F.coalesce(*verdicts, F.lit(None).cast("string"))


def repeated_member(text: Column, children: Mapping[Path, Sequence[str]], listed: Path = ()) -> Column:
    """Return that verdict by the names wanted of each object; ``listed``: the path of the list that is exploded.

    An object is looked at only if one of its names occurs twice in the text: each look parses the record again.
    """
    verdicts = []
    for parents, names in children.items():
        met = F.regexp_extract_all(text, F.lit(rf"""["']({_any_of(names)})["']\s*:"""), F.lit(1))
        is_possible = text.rlike(_ESCAPED_NAME) | (F.size(met) > F.size(F.array_distinct(met)))
        verdicts.append(F.when(is_possible, _repeated_of(text, parents, names, listed)))
    return F.coalesce(*verdicts, F.lit(None).cast("string"))


def _repeated_of(text: Column, parents: Path, names: Sequence[str], listed: Path) -> Column:
    """Return the verdict on one object, or on the objects of the exploded list."""
    verdicts = F.array(*(F.lit(repeated(".".join((*parents, name)))) for name in names))

    def first(members: Column) -> Column:
        keys = F.map_keys(members)
        each = [F.size(keys) - F.size(F.array_remove(keys, name)) > 1 for name in names]
        return F.get(verdicts, F.array_position(F.array(*each), F.lit(True)).cast("int") - 1)

    record = _record(text, _chain(parents, T.MapType(T.StringType(), T.StringType()), listed))
    if not listed or parents[: len(listed)] != listed:
        # A list of one binds the members, which would otherwise be parsed once a name.
        return F.get(F.transform(F.array(at(record, parents)), first), F.lit(0))
    inner = parents[len(listed) :]
    each = F.transform(at(record, listed), lambda item: first(at(item, inner)))
    return F.get(F.array_compact(each), F.lit(0))


def _record(text: Column, schema: T.DataType) -> Column:
    """Return the record of a text that holds one."""
    return F.get(F.from_json(F.concat(F.lit("["), text, F.lit("]")), T.ArrayType(schema)), F.lit(0))


def _any_of(names: Iterable[str]) -> str:
    return "|".join(map(re.escape, names))


def _parts(explode: str | None) -> Path:
    return tuple(explode.split(".")) if explode else ()


def _wanted(paths: Iterable[str], explode: str | None) -> list[str]:
    return [*dict.fromkeys(paths), *([explode] if explode else [])]


def _chain(parents: Path, last: T.DataType, listed: Path) -> T.DataType:
    """Return the schema in which parents lead to a member of one type."""
    for depth in range(len(parents), 0, -1):
        inner = T.ArrayType(last) if parents[:depth] == listed else last
        last = T.StructType([T.StructField(parents[depth - 1], inner)])
    return last


def _children(paths: Iterable[str]) -> dict[Path, list[str]]:
    """Return the names that paths lead to or through, by the path of the object that has them."""
    children: dict[Path, list[str]] = {}
    for path in paths:
        parts = tuple(path.split("."))
        for depth, part in enumerate(parts):
            names = children.setdefault(parts[:depth], [])
            if part not in names:
                names.append(part)
    return children


def _parents(paths: Iterable[str], listed: Path) -> Iterator[Path]:
    """Yield the paths at which an object is expected, but for the exploded list and what leads to it."""
    yield from dict.fromkeys(
        parts[:depth]
        for parts in (tuple(path.split(".")) for path in paths)
        for depth in range(1, len(parts))
        if parts[:depth] != listed[:depth]
    )


def _beside_path(text: Column, path: Path, listed: Path) -> Column:
    """Return the verdict on a record that has something else than an object where a path leads through."""
    schema = _chain(path[:-1], T.StructType([T.StructField(path[-1], T.StringType())]), listed)
    is_inside = bool(listed) and path[: len(listed)] == listed
    inner = path[len(listed) :] if is_inside else path
    outer = F.col("item") if is_inside else F.col("json")
    record = _record(text, schema)
    raw = at(F.get(at(record, listed), F.col("place")) if is_inside else record, inner)
    other = rf"""["']{re.escape(path[-1])}["']\s*:\s*(?:[^{{n\s]|n(?!ull))"""
    is_possible = at(outer, inner).isNull() & at(outer, inner[:-1]).isNotNull()
    is_possible &= text.rlike(other) | text.rlike(_ESCAPED_NAME)
    # An empty list has no values that could be lost.
    is_other = ~F.startswith(raw, F.lit("{")) & (raw != "[]")
    verdict = F.concat(
        F.lit(f"bad_value: {'.'.join(path)} is '"),
        F.substring(raw, 1, 100),
        F.lit("', expected an object; a list has values only where explode names it"),
    )
    return F.when(is_possible, F.when(is_other, verdict))
