"""Predicates of the operator's own as conditions on one side: of pairs, of three streams, of aggregates."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest

from lakehouse.config.problems import ConfigError
from lakehouse.queries.aggregate.query import AggregateQuery, Input
from lakehouse.queries.kind import Conjunct, PythonCall, Query
from lakehouse.queries.multiway.query import MultiwayQuery, Windowed
from lakehouse.queries.pairs.query import PairSide, PairsQuery
from lakehouse.queries.registered import QueryError, parse_query
from lakehouse.settings import load_settings
from tests.queries.declared_streams import SECOND, stream_of

COLUMNS = {"id": "int", "kind": "string", "x": "double", "y": "double"}
STREAMS = {name: stream_of(name=name, columns=COLUMNS) for name in ("s", "t", "u")}
STREAMS["u"] = stream_of(name="u", columns=COLUMNS | {"only": "string"})
PAIR = "SELECT a.id FROM s [1 SECOND] a JOIN t b ON a.id = b.id"
RECALL = " RECALL 0.9 OVER 1 MINUTE"
TABLES = "FROM s [1 SECOND] a JOIN t [1 SECOND] b ON a.id = b.id JOIN u [1 SECOND] c ON b.id = c.id"
THREE, COUNT, EVERY = f"SELECT a.id {TABLES}", f"SELECT COUNT(*) {TABLES}", " EVERY 1 MINUTE"
KINDS = [(PAIR, RECALL), (THREE, ""), (COUNT, EVERY)]
X = Conjunct("`x` > 5", ("x",))
Y = Conjunct("`y` < 1", ("y",))


@pytest.fixture
def predicates(tmp_path: Path) -> Path:
    folder = tmp_path / "predicates"
    folder.mkdir()
    (folder / "odd.py").write_text("def odd(kind, x) -> bool:\n    return True\n", encoding="utf-8")
    (folder / "even.py").write_text("def even(*columns):\n    return columns[0]\n", encoding="utf-8")
    return folder


@pytest.fixture
def odd(predicates: Path) -> Conjunct:
    return Conjunct("odd(kind, x)", ("kind", "x"), PythonCall("odd", predicates / "odd.py", by_row=True))


@pytest.fixture
def even(predicates: Path) -> Conjunct:
    return Conjunct("even(id)", ("id",), PythonCall("even", predicates / "even.py", by_row=False))


def sides_of(query: Query) -> tuple[PairSide | Windowed | Input, ...]:
    assert isinstance(query, PairsQuery | MultiwayQuery | AggregateQuery)
    return query.sides


@pytest.mark.parametrize("where", ["WHERE", "AND"], ids=["where", "on"])
@pytest.mark.parametrize(("head", "tail"), KINDS)
def test_all_conditions_on_a_side_that_calls_are_kept_in_the_written_order(
    predicates: Path, odd: Conjunct, even: Conjunct, head: str, tail: str, where: str
) -> None:
    text = f"{head} {where} a.x > 5 AND odd(a.kind, a.x) AND (b.x > 5) AND a.y < 1 AND Even(a.id) AND a.x > 5{tail}"

    left, right, *_ = sides_of(parse_query("q", text, STREAMS, predicates))

    assert (left.where, left.conjuncts) == (None, (X, odd, Y, even))
    assert (right.where, right.conjuncts) == ("`x` > 5", ())


@pytest.mark.parametrize("side", [0, 1, 2])
@pytest.mark.parametrize(("head", "tail"), KINDS[1:])
def test_each_of_three_sides_may_call(
    predicates: Path, even: Conjunct, head: str, tail: str, side: int
) -> None:
    text = f"{head} WHERE even({'abc'[side]}.id){tail}"

    found = sides_of(parse_query("q", text, STREAMS, predicates))

    assert [each.conjuncts for each in found] == [(even,) if at == side else () for at in range(3)]
    assert [each.where for each in found] == [None] * 3


def test_the_right_side_of_a_pair_may_call_and_a_column_that_only_it_has_needs_no_alias(
    predicates: Path, odd: Conjunct
) -> None:
    text = f"{PAIR.replace('t b', 'u b')} AND odd(b.kind, b.x) AND only = 'a'{RECALL}"

    left, right = sides_of(parse_query("q", text, STREAMS, predicates))

    assert (left.where, left.conjuncts) == (None, ())
    assert right.conjuncts == (odd, Conjunct("`only` = 'a'", ("only",)))


@pytest.mark.parametrize("condition", ["ABS(a.x - b.x) <= 5", "DISTANCE(a.x, a.y, b.x, b.y) <= 5"])
def test_calls_stand_beside_bands_and_distances(predicates: Path, odd: Conjunct, condition: str) -> None:
    head = "SELECT a.id FROM s [1 SECOND] a, t b WHERE"
    plain = parse_query("q", f"{head} {condition}{RECALL}", STREAMS)
    query = parse_query("q", f"{head} odd(a.kind, a.x) AND {condition}{RECALL}", STREAMS, predicates)

    assert isinstance(plain, PairsQuery) and isinstance(query, PairsQuery)
    assert query.condition == plain.condition
    assert [side.numbers for side in query.sides] == [side.numbers for side in plain.sides]
    assert query.sides[0].conjuncts == (odd,)


@pytest.mark.parametrize(("head", "tail"), KINDS[1:])
def test_columns_of_one_side_that_must_be_equal_are_conditions_on_it(
    predicates: Path, even: Conjunct, head: str, tail: str
) -> None:
    text = f"{head} WHERE a.kind = b.kind AND c.kind = b.kind AND a.room = b.kind AND even(a.id){tail}"

    first, *others = sides_of(parse_query("q", text, STREAMS, predicates))

    assert first.conjuncts == (even, Conjunct("`kind` = `room`", ("kind", "room")))
    assert all((each.where, each.conjuncts) == (None, ()) for each in others)


def test_a_stream_that_joins_itself_may_call_on_one_side_alone(predicates: Path, even: Conjunct) -> None:
    text = f"SELECT a.id FROM s [1 SECOND] a, s b WHERE a.id = b.id AND even(b.id){RECALL}"

    assert [side.conjuncts for side in sides_of(parse_query("q", text, STREAMS, predicates))] == [(), (even,)]


def test_sides_of_an_aggregate_that_differ_in_a_call_alone_are_told_apart(
    predicates: Path, even: Conjunct
) -> None:
    """Whichever is written first, the answers and the state are of the same side."""
    texts = [
        f"SELECT SUM(a.x) AS heat FROM {', '.join(tables)} WHERE {' AND '.join(conditions)}{EVERY}"
        for tables in permutations(["s [1 SECOND] a", "s [1 SECOND] b"])
        for conditions in permutations(["a.id = b.id", "even(b.id)", "a.y < 1", "b.y < 1"])
    ]
    queries = [parse_query("q", text, STREAMS, predicates) for text in texts]

    assert len({query.definition() for query in queries}) == 1
    for query in queries:
        found = {side.alias: (side.where, set(side.conjuncts)) for side in sides_of(query)}
        assert found == {"a": ("`y` < 1", set()), "b": (None, {even, Y})}
    other = parse_query("q", texts[0].replace("even(b.id)", "even(a.id)"), STREAMS, predicates)
    assert other.definition() != queries[0].definition()


@pytest.mark.parametrize(("head", "tail"), KINDS)
def test_a_call_is_part_of_what_a_query_means_its_place_and_its_file_are_not(
    predicates: Path, head: str, tail: str
) -> None:
    def meant(conditions: str) -> str:
        return parse_query("q", f"{head} {conditions}{tail}", STREAMS, predicates).definition()

    one = meant("WHERE a.x > 5 AND odd(a.kind, a.x)")
    (predicates / "odd.py").write_text("def odd(kind, x):\n    return x\n", encoding="utf-8")

    assert one == meant("WHERE ODD(a.kind, a.x) AND a.x > 5") == meant("AND odd(a.kind, a.x) AND a.x > 5")
    assert "WHERE `x` > 5 AND odd(kind, x)" in one
    assert len({one, meant("WHERE a.x > 5"), meant("WHERE a.x > 5 AND odd(b.kind, b.x)")}) == 3
    assert len({one, meant("WHERE odd(a.kind, a.x)"), meant("WHERE a.x > 5 AND odd(a.kind, a.y)")}) == 3


def test_what_a_query_without_calls_means_is_told_as_ever() -> None:
    """A state that was kept before sides could call fits its query still."""
    conditions = "WHERE a.y < 1 AND a.x > 5"
    pair, three, count = (parse_query("q", f"{head} {conditions}{tail}", STREAMS) for head, tail in KINDS)

    assert pair.definition().startswith(
        "s WHERE `x` > 5 AND `y` < 1 JOIN t WHERE true WITHIN 1s KEYS [id = id]"
    )
    sides = (
        "s [1s] WHERE `x` > 5 AND `y` < 1 KEYS [id] BY VALUE JOIN t [1s] WHERE true KEYS [id] BY VALUE JOIN u"
    )
    assert three.definition().startswith(sides)
    assert count.definition().startswith(
        "s [1s] WHERE `x` > 5 AND `y` < 1 KEYS [0 = id] BY VALUE VALUES [] JOIN t [1s]"
    )
    assert sides_of(three)[0] == Windowed("s", "a", SECOND, ("id",), where="`x` > 5 AND `y` < 1")


# Each is a condition whose fault stands at the mark, and what is told of it.
FAULTS = [
    ("^od(a.kind, a.x)", "the unknown predicate 'od'; expected .*did you mean odd.*file predicates/od.py"),
    ("^odd(a.kind)", "1 columns for odd; expected 2, as predicates/odd.py has it: kind, x"),
    ("odd(a.kind, a.^tmp)", "the unknown column 'tmp'"),
    ("odd(^q.kind, a.x)", "the unknown alias 'q'"),
    ("odd(^kind, a.x)", "'kind', which .* sides have"),
    ("odd(a.kind, ^a.x + 1)", "a.x . 1; expected a plain column"),
    ("odd(a.kind, ^ABS(a.x))", "a plain column"),
    ("^even()", r"even\(\) without a column"),
    (
        "^odd(a.kind, b.x)",
        r"odd\(a.kind, b.x\), which reads columns of several streams; expected columns of one stream: a pred",
    ),
    (
        "(a.x > 1 OR ^odd(a.kind, a.x))",
        "within a condition; expected the call of a predicate that stands by itself between ANDs",
    ),
    ("(a.x > 1 OR ^odd(b.kind, b.x))", "within a condition"),
    ("NOT ^odd(a.kind, a.x)", "within a condition"),
    ("NOT ^odd(a.kind, b.x)", "within a condition"),
    ("^even(a.id) = b.x", r"even\(a.id\) within a condition"),
    ("a.x < ^even(b.x)", "within a condition"),
    ("ABS(a.x - b.x) <= ^even(a.x)", "within a condition"),
    ("^DISTANCE(a.x, a.y, a.x, a.y) <= 5", "expected columns, texts, numbers"),
    ("^DISTANCE(a.x, a.y, b.x, b.y)", r"DISTANCE\(a.x, a.y, b.x, b.y\) <= number|only equalities"),
    ("^1 = 1", "a condition that reads no column; expected a condition on the streams"),
]


@pytest.mark.parametrize(("head", "tail"), KINDS)
@pytest.mark.parametrize(("marked", "told"), FAULTS)
def test_what_cannot_be_run_is_told_with_its_place(
    predicates: Path, head: str, tail: str, marked: str, told: str
) -> None:
    before, _, after = f"-- é\n{head} WHERE {marked}{tail}".partition("^")

    with pytest.raises(QueryError, match=told) as refused:
        parse_query("q", before + after, STREAMS, predicates)

    places = [(fault.line, fault.column) for fault in refused.value.faults]
    assert places == [(2, len(before) - before.rfind("\n"))], str(refused.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"{COUNT} GROUP BY a.kind HAVING odd(a.kind, a.x){EVERY}", "expected one of COUNT, SUM, AVG"),
        (f"{COUNT} HAVING NOT even(count){EVERY}", "expected one of COUNT, SUM, AVG"),
        (COUNT.replace("COUNT(*)", "COUNT(*), even(a.id) AS n") + EVERY, "expected one of COUNT, SUM, AVG"),
        (PAIR.replace("SELECT a.id", "SELECT even(a.id) AS n") + RECALL, "expected a plain column"),
        (THREE.replace("SELECT a.id", "SELECT even(a.id) AS n"), "expected a plain column"),
    ],
)
def test_select_and_having_call_nothing(predicates: Path, text: str, told: str) -> None:
    with pytest.raises(QueryError, match=told):
        parse_query("q", text, STREAMS, predicates)


def test_settings_find_the_predicates_beside_the_folder_of_queries(predicates: Path, odd: Conjunct) -> None:
    folder = predicates.parent / "asked"
    folder.mkdir()
    for name, (head, tail) in zip(("pairs", "three", "counted"), KINDS, strict=True):
        text = f"{head} WHERE odd(a.kind, a.x){tail}"
        (folder / f"{name}.sql").write_text(text, encoding="utf-8")
    config = predicates.parent / "tidemark.toml"
    config.write_text(DECLARED, encoding="utf-8")

    queries = load_settings(config).registered

    assert list(queries) == ["counted", "pairs", "three"]
    assert all(sides_of(query)[0].conjuncts == (odd,) for query in queries.values())
    (predicates / "odd.py").unlink()
    settings = load_settings(config)
    assert (settings.registered, list(settings.faulty)) == ({}, ["counted", "pairs", "three"])
    with pytest.raises(ConfigError, match=r"pairs.sql: 1 problem\n.*the unknown predicate 'odd'"):
        settings.query("pairs")


DECLARED = '[queries]\nfolder = "asked"\n' + "".join(
    f"""
[streams.{name}]
event_time = {{ column = "ts", unit = "s" }}
levels = ["1d forever"]
keys = ["id"]
columns = {{ kind = "string", x = "double" }}
source = {{ path = "{name}", format = "csv" }}
"""
    for name in "stu"
)
