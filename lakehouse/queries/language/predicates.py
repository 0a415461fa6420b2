"""Predicates of the operator's own: files of Python beside the folder of queries, looked at and not run.

    queries/odd_names.sql            SELECT * FROM dns WHERE proto = 'udp' AND looks_made_up(query, answers)
    predicates/looks_made_up.py      def looks_made_up(query, answers): ...

A file has one function of its own name. It is given an Arrow array for each column and returns a boolean one as long;
or, where it says that it returns ``bool``, the values of one row, None for null, and is asked row by row.

Reading a configuration runs none of this code: it is parsed, so commands of analysts never start it.
"""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from sys import builtin_module_names, stdlib_module_names

from lakehouse.config.problems import nearest

FOLDER = "predicates"


class NoPredicate(ValueError):
    """A predicate that cannot be called: why, and what is expected."""

    def __init__(self, reason: str, expected: str) -> None:
        super().__init__(f"found {reason}; expected {expected}")
        self.reason, self.expected = reason, expected


@dataclass(frozen=True)
class PythonPredicate:
    """A function in a file: what its columns are called there, and how many it takes (``most`` None: any number)."""

    name: str
    path: Path
    parameters: tuple[str, ...]
    least: int
    most: int | None
    by_row: bool

    def require(self, columns: int) -> None:
        """Refuse another number of columns than it takes. Raises NoPredicate with what it takes."""
        if columns < self.least or (self.most is not None and columns > self.most):
            counts = f"{self.least}" if self.least == self.most else f"{self.least} to {self.most or 'any'}"
            raise NoPredicate(
                f"{columns} columns for {self.name}",
                f"{counts}, as {FOLDER}/{self.path.name} has it: {', '.join(self.parameters) or 'none'}",
            )


# How a text's predicates are found: the one of a name, or NoPredicate.
Find = Callable[[str], PythonPredicate]


def find_predicate(folder: Path | None, name: str) -> PythonPredicate:
    """Return what the file of a predicate says of it.

    Raises NoPredicate when there is no such file, Python cannot read it, it has no such function, or a module that it
    imports is not installed.
    """
    path = (folder or Path(FOLDER)) / f"{name}.py"
    file = f"{FOLDER}/{path.name}"
    if folder is None or not path.is_file():
        known = sorted(each.stem for each in folder.glob("*.py")) if folder else []
        raise NoPredicate(
            f"the unknown predicate {name!r}",
            f"{nearest(name, known)}, or a file {file} with a function {name}",
        )
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"), filename=file)
    except (SyntaxError, ValueError) as error:
        raise NoPredicate(f"{file}, which Python cannot read: {error}", "a file of Python") from error
    _require_imports(tree, file)
    function = next(
        (each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == name), None
    )
    if function is None:
        raise NoPredicate(f"{file} without a function {name}", f"def {name}(...) at its outermost level")
    return _predicate(name, path, function)


def called_before(name: str) -> PythonPredicate:
    """Return a predicate that a text was read with before; its file, which may be wrong now, is not looked at."""
    return PythonPredicate(name, Path(f"{name}.py"), (), 0, None, by_row=True)


def _predicate(name: str, path: Path, function: ast.FunctionDef) -> PythonPredicate:
    asked = function.args
    named = [each.arg for each in (*asked.posonlyargs, *asked.args)]
    if any(default is None for default in asked.kw_defaults):
        raise NoPredicate(f"{name} with a parameter that must be named", "parameters that are given in order")
    returns = function.returns
    by_row = (isinstance(returns, ast.Name) and returns.id == "bool") or (
        isinstance(returns, ast.Constant) and returns.value == "bool"
    )
    least, most = len(named) - len(asked.defaults), None if asked.vararg else len(named)
    parameters = (*named, *([f"*{asked.vararg.arg}"] if asked.vararg else []))
    return PythonPredicate(name, path, parameters, least, most, by_row)


def _require_imports(tree: ast.Module, file: str) -> None:
    """Refuse a module that is not there; imports inside of functions and of ``try`` are left to them."""
    for line, module in _imported(tree):
        if not _is_there(module):
            raise NoPredicate(
                f"{file}, which imports {module} in line {line}: there is no such module",
                "modules that are installed where Tidemark runs",
            )


def _imported(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.partition(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield node.lineno, module if node.level else module.partition(".")[0]


def _is_there(module: str) -> bool:
    if module in builtin_module_names or module in stdlib_module_names:
        return True
    return not module.startswith(".") and PathFinder.find_spec(module) is not None
