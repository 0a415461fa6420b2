"""Random conditions of WHERE, and by hand what SQL says of each for a row: a yardstick that shares no code with us.

A condition is written and evaluated at once: each operator below returns its text and a function of a row. Values are
Python's own, with ``None`` for null; numbers without exponent are ``int`` or ``Decimal`` and exact, beside a ``float``
all are floats.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

Row = dict[str, Any]
TEXTS = (
    *("", "a", "A", "ab", "aB", "a%b", "a_b", "%", "_", " a ", "a\nb", "it's", "back\\slash", "100%"),
    *(
        "é",
        "É",
        "ß",
        "ẞ",
        "Σ",
        "\N{GREEK SMALL LETTER SIGMA}",
        "ς",
        "İ",
        "i",
        "\N{LATIN SMALL LETTER DOTLESS I}",
        "日本",
        "😀",
        "a😀b",
        "Ünïcode",
        "ÜNÏCODE",
        "z" * 40,
    ),
)
PATTERNS = (
    *(
        "",
        "%",
        "_",
        "__",
        "a%",
        "%a",
        "%b%",
        "a_b",
        "a%b",
        "_%_",
        "%_",
        "A%",
        "é",
        "%É%",
        "ß",
        "\N{GREEK SMALL LETTER SIGMA}%",
        "%Σ",
        "i%",
    ),
    *(
        "_b",
        "a.b",
        "a*",
        "^a",
        "(a",
        "[a]",
        "%%",
        "日_",
        "😀",
        "a_b%",
        "ünïcode",
        "Z%",
        "%'%",
        "$%",
        "a|b",
        " %",
    ),
)
WHOLE = (0, 1, -1, 3, 7, -7, 10, 2**53, 2**53 + 1, -(2**53) - 1, 2**62, 2**63 - 1, -(2**63), -(2**63) + 1)
DECIMALS = tuple(
    Decimal(text)
    for text in (
        *("0.000", "0.001", "-0.001", "1.000", "0.500", "-7.500", "3.100", "9007199254740993.000", "0.100"),
        *("99999999999999999999999999999999999.999", "-99999999999999999999999999999999999.999", "10.000"),
    )
)
SMALL = tuple(
    Decimal(text)
    for text in ("0E-18", "0.000000000000000001", "0.1", "0.5", "-0.5", "1", "99999999999999999999.5", "3.1")
)
DOUBLES = (
    *(0.0, -0.0, 1.0, -2.5, 0.1, 0.5, 3.0, 1e300, -1e300, 5e-324, math.inf, -math.inf, math.nan),
    *(float(2**53), 2.0**63, 0.30000000000000004),
)
NUMBERS = (
    *(
        "0",
        "1",
        "3",
        "7",
        "10",
        "0.5",
        "0.0005",
        "3.1",
        "3.5",
        "0.1",
        "2.50000000000000000000000000000000001",
    ),
    *("9007199254740993", "9007199254740992", "9223372036854775807", "9223372036854775808", "0.30", "100"),
    *("99999999999999999999999999999999999999999", "0." + "0" * 60 + "1", "1e0", "1E-1", "1e300", "5e-324"),
    *("99999999999999999999999999999999999.9995", "0.0009999", "0.30000000000000004", "9.007199254740993e15"),
)
VALUES: dict[str, tuple[Any, ...]] = {
    "device": TEXTS,
    "room": TEXTS,
    "count": WHOLE,
    "other": WHOLE,
    "volts": DECIMALS,
    "amps": SMALL,
    "temp": DOUBLES,
    "heat": DOUBLES,
    "flag": (True, False),
    "open": (True, False),
}
_OF_KIND = {
    "text": ("device", "room"),
    "number": ("count", "other", "volts", "amps", "temp", "heat"),
    "boolean": ("flag", "open"),
}


@dataclass(frozen=True)
class Node:
    """A part of a condition: text, value for a row, sqlglot's names of its operators, and if a column is read."""

    sql: str
    of: Callable[[Row], Any]
    operators: frozenset[str] = frozenset()
    reads: bool = False


def rows_of(count: int, seed: int) -> list[Row]:
    """Return rows of edge values, one in six of them null."""
    chosen = random.Random(seed)
    return [
        {name: None if chosen.random() < 1 / 6 else chosen.choice(values) for name, values in VALUES.items()}
        for _ in range(count)
    ]


def conditions_of(count: int, seed: int) -> list[Node]:
    """Return different conditions, each of which reads a column."""
    writer, found = _Writer(random.Random(seed)), dict[str, Node]()
    while len(found) < count:
        # Deep ones are few: most of the time goes into parsing.
        node = writer.condition(depth=3 if len(found) % 16 == 0 else len(found) % 2)
        if node.reads:
            found[node.sql] = node
    return list(found.values())


def condition_on(chosen: random.Random, columns: Mapping[str, Sequence[str]]) -> Node:
    """Return a condition that reads some of the columns, which are given by kind: text, number, boolean."""
    writer = _Writer(chosen, columns)
    while not (node := writer.condition(depth=chosen.choice([0, 0, 1, 2]))).reads:
        pass
    return node


class _Writer:
    def __init__(self, chosen: random.Random, columns: Mapping[str, Sequence[str]] = _OF_KIND) -> None:
        self.chosen, self.columns = chosen, columns

    def condition(self, depth: int) -> Node:
        """Return a condition that is no AND or BETWEEN at its top, and in no brackets: it is one condition of WHERE."""
        node = self._logic(depth)
        return _node(f"NOT ({node.sql})", lambda row: _not(node.of(row)), "Not", node)

    def _logic(self, depth: int) -> Node:
        kind = self.chosen.random()
        if depth and kind < 0.35:
            one, two = self._logic(depth - 1), self._logic(depth - 1)
            if self.chosen.random() < 0.5:
                return _node(
                    f"({one.sql} AND {two.sql})", lambda r: _and(one.of(r), two.of(r)), "And", one, two
                )
            return _node(f"({one.sql} OR {two.sql})", lambda r: _or(one.of(r), two.of(r)), "Or", one, two)
        if depth and kind < 0.45:
            one = self._logic(depth - 1)
            return _node(f"NOT ({one.sql})", lambda r: _not(one.of(r)), "Not", one)
        return self._predicate()

    def _predicate(self) -> Node:
        match self.chosen.choice(
            ("compare",) * 4 + ("same", "in", "between", "is null", "like", "like", "is")
        ):
            case "compare":
                return self._comparison()
            case "same":
                return self._same()
            case "in":
                return self._in()
            case "between":
                return self._between()
            case "is null":
                return self._is_null()
            case "like":
                return self._like()
        return self._is_truth()

    def _comparison(self) -> Node:
        one, two = self._alike()
        signs = {
            "=": "EQ",
            "==": "EQ",
            "<>": "NEQ",
            "!=": "NEQ",
            "<": "LT",
            "<=": "LTE",
            ">": "GT",
            ">=": "GTE",
        }
        sign = self.chosen.choice(list(signs))
        name = signs[sign]
        return _node(
            f"{one.sql} {sign} {two.sql}", lambda r: _compare(name, one.of(r), two.of(r)), name, one, two
        )

    def _same(self) -> Node:
        one, two = self._alike()
        forms = {"<=>": "NullSafeEQ", "IS NOT DISTINCT FROM": "NullSafeEQ", "IS DISTINCT FROM": "NullSafeNEQ"}
        sign = self.chosen.choice(list(forms))

        def of(row: Row) -> bool:
            x, y = one.of(row), two.of(row)
            is_same = (x is None and y is None) or _compare("EQ", x, y) is True
            return is_same == (forms[sign] == "NullSafeEQ")

        return _node(f"{one.sql} {sign} {two.sql}", of, forms[sign], one, two)

    def _in(self) -> Node:
        kind = self._kind()
        one, items = self._value(kind), [self._value(kind) for _ in range(self.chosen.randint(1, 4))]
        has_not = self.chosen.random() < 0.5

        def of(row: Row) -> bool | None:
            found: bool | None = False
            for item in items:
                found = _or(found, _compare("EQ", one.of(row), item.of(row)))
            return _not(found) if has_not else found

        sign = "NOT IN" if has_not else "IN"
        listed = ", ".join(item.sql for item in items)
        return _node(f"{one.sql} {sign} ({listed})", of, "Not In" if has_not else "In", one, *items)

    def _between(self) -> Node:
        kind = self._kind()
        one, low, high = (self._value(kind) for _ in range(3))
        has_not = self.chosen.random() < 0.5

        def of(row: Row) -> bool | None:
            x = one.of(row)
            found = _and(_compare("GTE", x, low.of(row)), _compare("LTE", x, high.of(row)))
            return _not(found) if has_not else found

        sign = "NOT BETWEEN" if has_not else "BETWEEN"
        name = "Not Between" if has_not else "Between"
        return _node(f"{one.sql} {sign} {low.sql} AND {high.sql}", of, name, one, low, high)

    def _is_null(self) -> Node:
        one, has_not = self._value(self._kind()), self.chosen.random() < 0.5
        sign = self.chosen.choice(("IS NOT NULL", "NOTNULL")) if has_not else "IS NULL"
        return _node(
            f"{one.sql} {sign}",
            lambda r: (one.of(r) is None) != has_not,
            "Not Is Null" if has_not else "Is Null",
            one,
        )

    def _is_truth(self) -> Node:
        one, wanted, has_not = self._value("boolean"), self.chosen.random() < 0.5, self.chosen.random() < 0.5
        sign = f"IS {'NOT ' if has_not else ''}{str(wanted).upper()}"
        name = "Not Is Boolean" if has_not else "Is Boolean"
        return _node(f"{one.sql} {sign}", lambda r: (one.of(r) is wanted) != has_not, name, one)

    def _like(self) -> Node:
        one, (pattern, signs, escape) = self._value("text"), self._pattern()
        has_not, is_cased = self.chosen.random() < 0.5, self.chosen.random() < 0.5

        def of(row: Row) -> bool | None:
            text = one.of(row)
            if text is None:
                return None
            return _matches(text if is_cased else _lower(text), signs, is_cased) != has_not

        sign = f"{'NOT ' if has_not else ''}{'LIKE' if is_cased else 'ILIKE'}"
        # The parser has NOT LIKE as an argument of LIKE.
        names = (
            f"{'Like' if is_cased else 'ILike'}{' negate' if has_not else ''}{' Escape' if escape else ''}"
        )
        return _node(f"{one.sql} {sign} {_quoted(pattern)}{escape}", of, names, one)

    def _pattern(self) -> tuple[str, list[str], str]:
        """Return a pattern, what stands in it, and ESCAPE if some are escaped: %, _, and =x for each other x."""
        pattern = self.chosen.choice(PATTERNS)
        signs = [each if each in "%_" else f"={each}" for each in pattern]
        if self.chosen.random() < 0.5:
            return pattern, signs, ""
        escape = self.chosen.choice(("!", "\\", "\\", "a", "%", "_", ".", "É"))
        signs += [f"={each}" for each in self.chosen.choice(TEXTS)] if self.chosen.random() < 0.5 else []
        for _ in range(self.chosen.randint(0, 2)):
            sign = self.chosen.choice(("=%", "=_", "=\\", "%", "_"))
            signs.insert(self.chosen.randint(0, len(signs)), sign)
        # What escapes stands for nothing else.
        signs = [each for each in signs if each != escape]
        spelled = [escape + each[1] if each[1:] in ("%", "_", escape) else each[-1] for each in signs]
        return "".join(spelled), signs, f" ESCAPE {_quoted(escape)}"

    def _kind(self) -> str:
        return self.chosen.choice(("text", "number", "number", "number", "boolean"))

    def _alike(self) -> tuple[Node, Node]:
        kind = self._kind()
        return self._value(kind), self._value(kind)

    def _value(self, kind: str) -> Node:
        at = self.chosen.random()
        if at < 0.5:
            return _column(self.chosen.choice(self.columns[kind]))
        if at < 0.55:
            return Node("NULL", lambda _: None, frozenset({"Null"}))
        if at < 0.8:
            return self._literal(kind)
        return {"text": self._text, "number": self._number, "boolean": self._boolean}[kind]()

    def _literal(self, kind: str) -> Node:
        if kind == "boolean":
            truth = self.chosen.random() < 0.5
            return Node(str(truth).upper(), lambda _: truth, frozenset({"Boolean"}))
        if kind == "text":
            text = self.chosen.choice(TEXTS)
            return Node(_quoted(text), lambda _: text, frozenset({"Literal"}))
        text = self.chosen.choice(NUMBERS)
        number: Any = float(text) if "e" in text.lower() else Decimal(text)
        if self.chosen.random() < 0.3:
            # ``copy_negate`` alone rounds nothing.
            minus = -number if isinstance(number, float) else number.copy_negate()
            return Node(f"-{text}", lambda _: minus, frozenset({"Literal", "Neg"}))
        return Node(text, lambda _: number, frozenset({"Literal"}))

    def _text(self) -> Node:
        one = self._value("text")
        forms: dict[str, tuple[str, Callable[[str], str]]] = {
            "LOWER": ("Lower", str.lower),
            "LCASE": ("Lower", str.lower),
            "UPPER": ("Upper", str.upper),
            "TRIM": ("Trim", lambda text: text.strip(" ")),
        }
        sign = self.chosen.choice(list(forms))
        name, make = forms[sign]

        def of(row: Row) -> str | None:
            text = one.of(row)
            return None if text is None else make(text)

        return _node(f"{sign}({one.sql})", of, name, one)

    def _boolean(self) -> Node:
        one = self._comparison()
        return _node(f"({one.sql})", one.of, "Paren", one)

    def _number(self) -> Node:
        match self.chosen.choice(("length", "neg", "abs", "two", "two", "by")):
            case "length":
                text = self._value("text")
                return _node(f"LENGTH({text.sql})", lambda r: _length(text.of(r)), "Length", text)
            case "neg":
                one = _column(self.chosen.choice(self.columns["number"]))
                return _node(f"-{one.sql}", lambda r: _reckon(lambda x: -x, one.of(r)), "Neg", one)
            case "abs":
                one = self._value("number")
                return _node(f"ABS({one.sql})", lambda r: _reckon(abs, one.of(r)), "Abs", one)
            case "by":
                return self._divided()
        one, two = self._value("number"), self._value("number")
        sign, name = self.chosen.choice((("+", "Add"), ("-", "Sub"), ("*", "Mul")))
        ways: dict[str, Callable[[float, float], float]] = {
            "+": lambda x, y: x + y,
            "-": lambda x, y: x - y,
            "*": lambda x, y: x * y,
        }
        return _node(
            f"({one.sql} {sign} {two.sql})",
            lambda r: _reckon(ways[sign], one.of(r), two.of(r)),
            name,
            one,
            two,
        )

    def _divided(self) -> Node:
        one, text = self._value("number"), self.chosen.choice(("2", "3", "0.1", "7.5", "1e300"))
        sign, name = self.chosen.choice((("/", "Div"), ("%", "Mod")))

        def of(row: Row) -> float | None:
            return _reckon(
                lambda x: x / float(text) if sign == "/" else _remainder(x, float(text)), one.of(row)
            )

        return _node(f"({one.sql} {sign} {text})", of, name, one)


def _node(sql: str, of: Callable[[Row], Any], names: str, *parts: Node) -> Node:
    operators = frozenset(names.split()).union(*(part.operators for part in parts))
    return Node(sql, of, operators, any(part.reads for part in parts))


def _column(name: str) -> Node:
    return Node(f"`{name}`", lambda row: row[name], frozenset({"Column"}), reads=True)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _not(one: bool | None) -> bool | None:
    return None if one is None else not one


def _and(one: bool | None, two: bool | None) -> bool | None:
    if one is False or two is False:
        return False
    return None if one is None or two is None else True


def _or(one: bool | None, two: bool | None) -> bool | None:
    return _not(_and(_not(one), _not(two)))


def _compare(name: str, one: Any, two: Any) -> bool | None:
    if one is None or two is None:
        return None
    if isinstance(one, float) or isinstance(two, float):
        one, two = float(one), float(two)
        # NaN is equal to itself and above all others.
        one, two = ((math.isnan(x), 0.0 if math.isnan(x) else x) for x in (one, two))
    if isinstance(one, str):
        one, two = one.encode(), two.encode()
    holds: dict[str, bool] = {
        "EQ": one == two,
        "NEQ": one != two,
        "LT": one < two,
        "LTE": one <= two,
        "GT": one > two,
        "GTE": one >= two,
    }
    return holds[name]


def _reckon(way: Callable[..., float], *values: Any) -> float | None:
    return None if any(value is None for value in values) else way(*map(float, values))


def _remainder(one: float, two: float) -> float:
    return math.nan if math.isinf(one) or math.isnan(one) else math.fmod(one, two)


def _length(text: str | None) -> int | None:
    return None if text is None else len(text)


def _lower(text: str) -> str:
    """Return each character in lower case; one stays one."""
    return "".join(character.lower()[0] for character in text)


def _matches(text: str, signs: Sequence[str], is_cased: bool) -> bool:
    """Return whether a text matches: % stands for any characters, _ for one, and =x for x, be it one of these."""
    reached = {0}
    for sign in signs:
        own = sign[-1] if is_cased else _lower(sign[-1])
        if sign == "%":
            reached = set(range(min(reached), len(text) + 1)) if reached else reached
        else:
            reached = {at + 1 for at in reached if at < len(text) and (sign == "_" or own == text[at])}
    return len(text) in reached
