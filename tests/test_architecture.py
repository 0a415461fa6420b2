"""The rules of the house that a parser can see: who imports whom, sizes, names."""

from __future__ import annotations

import ast
import gc
import re
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from lakehouse.queries import kind as kind_module
from lakehouse.queries.kind import KINDS, kinds

ROOT = Path(__file__).parents[1]
TOP = ("lakehouse", "jobs", "dags", "quality", "infra", "sql")
MODULES = sorted(path for folder in TOP for path in (ROOT / folder).rglob("*.py"))
NAMES = [str(path.relative_to(ROOT)) for path in MODULES]
KNOWN = frozenset(NAMES)
# Files of queries that know no engine: what is written, and what it means.
PURE_QUERIES = re.compile(
    r"lakehouse/queries/(__init__\.py|kind\.py|registered\.py|language/|\w+/(__init__|query|parse|parse_\w+|sites)\.py)"
)
DECLARED = {"lakehouse/algorithms", "lakehouse/config"}
ON_DISK = DECLARED | {"lakehouse/storage"}
RUN_BY_ENGINE = ON_DISK | {"lakehouse/spark", "lakehouse/engine", "sql"}
# What each layer may import of the project, besides itself.
MAY_IMPORT = {
    "lakehouse/algorithms": set(),
    "lakehouse/config": {"lakehouse/algorithms"},
    "pure queries": DECLARED,
    "settings": {*ON_DISK, "pure queries"},
    "lakehouse/storage": DECLARED,
    "lakehouse/simulator": ON_DISK,
    "lakehouse/collect": {"lakehouse/config", "lakehouse/storage"},
    "lakehouse/service": {"lakehouse/config", "lakehouse/storage", "settings"},
    "lakehouse/spark": {*ON_DISK, "sql"},
    "lakehouse/engine": {*ON_DISK, "lakehouse/spark"},
    "lakehouse/ingest": RUN_BY_ENGINE,
    "lakehouse/rollup": {*RUN_BY_ENGINE, "lakehouse/ingest"},
    "lakehouse/corrections": {*RUN_BY_ENGINE, "lakehouse/ingest", "lakehouse/rollup"},
    "lakehouse/checks": {*RUN_BY_ENGINE, "lakehouse/ingest", "lakehouse/rollup"},
    "lakehouse/propose": {*ON_DISK, "lakehouse/ingest"},
    "lakehouse/serving": {*ON_DISK, "sql"},
    "lakehouse/web": {*ON_DISK, "lakehouse/serving"},
    "lakehouse/queries": {
        *ON_DISK,
        *("pure queries", "lakehouse/spark", "lakehouse/engine", "lakehouse/serving", "sql"),
    },
    "quality": {*ON_DISK, "settings", "lakehouse/spark", "lakehouse/engine"},
    "infra": {*ON_DISK, "settings", "lakehouse/spark"},
    "jobs": {
        *(
            f"lakehouse/{layer}"
            for layer in ("algorithms", "config", "storage", "spark", "engine", "serving", "queries")
        ),
        *(f"lakehouse/{layer}" for layer in ("ingest", "rollup", "corrections", "checks")),
        *("lakehouse/service", "lakehouse/web", "settings", "pure queries", "quality", "infra"),
    },
    "dags": {"jobs", "lakehouse/config", "lakehouse/storage"},
    "sql": set(),
}
# Above the layers: the command line reaches everything, inside the command that needs it.
FREE = ("lakehouse/cli", "lakehouse/doctor.py", "lakehouse/home_checks.py", "lakehouse/__init__.py")
ONLY_IN = {
    "pyspark": ("lakehouse/spark", "lakehouse/engine", "jobs"),
    "delta": ("lakehouse/spark",),
    "deltalake": ("lakehouse/storage", "lakehouse/spark"),
    "sqlalchemy": ("lakehouse/storage/control",),
    "botocore": ("lakehouse/storage/stores/store_access.py",),
    "obstore": ("lakehouse/storage/stores/store_objects.py",),
    "psycopg": ("lakehouse/storage/control",),
    "duckdb": ("lakehouse/serving", "lakehouse/queries", "lakehouse/web"),
    "fastapi": ("lakehouse/web",),
    "starlette": ("lakehouse/web",),
    "promql_parser": ("lakehouse/web",),
    "airflow": ("dags", "infra", "jobs/run_dags.py", "jobs/run_task.py"),
    "great_expectations": ("quality",),
    "paho": ("lakehouse/collect",),
    "prometheus_client": ("lakehouse/service",),
}
# What belongs to a process and to nothing that is passed on; the line above each says why. Caches apart, no function
# changes what a module holds: a home, its tables and its control store are passed on.
OF_THE_PROCESS = {
    "jobs/running/outcome.py": {"_listeners"},
    "jobs/running/scheduled.py": {"_CONFIGURED"},
    "lakehouse/queries/runtime/tasks/bucket.py": {"_KEPT"},
    "lakehouse/service/lineage.py": {"_silent_until"},
    "lakehouse/serving/ask/question.py": {"_KEPT"},
    "lakehouse/serving/sandbox/together.py": {"_TOGETHER"},
    "lakehouse/serving/versions/downloads.py": {"_SILENT"},
    "lakehouse/spark/session.py": {"_LISTENERS", "_KNOWN", "_LOG"},
    "lakehouse/storage/control/session.py": {"_SESSIONS"},
    "lakehouse/storage/crashpoint.py": {"_passed"},
    "lakehouse/storage/tables/open_tables.py": {"_KEPT"},
    "quality/checkpoint.py": {"OPENED"},
}
CHANGES = {
    *("append", "appendleft", "add", "update", "setdefault", "pop", "popleft", "popitem", "clear", "extend"),
    *("remove", "discard", "insert"),
}
# What a DAG needs to be parsed, which takes milliseconds.
PARSED = {
    *("lakehouse.config.airflow.homes.AirflowHome", "lakehouse.config.airflow.homes.airflow_homes"),
    "lakehouse.storage.layout.Home",
}
# A file's own docstring, up to its second line.
FIRST_DOCSTRING = re.compile(r'\A(?:#.*\n|\s)*[rR]?"""(.*)')
# Modules of a folder, its own first one apart.
MOST_FILES = 21
# Files that a kind of query need not have.
OPTIONAL_FILES = {"sites.py", "repair.py", "tables.py", "publish.py"}
PURE = {"numpy", "numba"}
FORBIDDEN = {
    "utils",
    "util",
    "helpers",
    "helper",
    "common",
    "misc",
    "base",
    "core",
    "manager",
    "processor",
    "handler",
}
FORBIDDEN |= {"data", "info", "new", "v2"}


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module", autouse=True)
def parsed() -> Iterator[None]:
    """Look for no garbage while the code is parsed, and stays parsed: it takes three fifths of the time."""
    gc.disable()
    yield
    _tree.cache_clear()
    _nodes.cache_clear()
    gc.enable()


@cache
def _nodes(path: Path) -> tuple[ast.Import | ast.ImportFrom | ast.FunctionDef | ast.AsyncFunctionDef, ...]:
    """Return the imports and the functions of a file, wherever they are in it."""
    wanted = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.AsyncFunctionDef
    found, waiting = [], deque[ast.AST]([_tree(path)])
    while waiting:
        node = waiting.popleft()
        if isinstance(node, wanted):
            found.append(node)
        # No statement is below an expression.
        waiting += (child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr))
    return tuple(found)


def _names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def _imports(path: Path) -> frozenset[str]:
    """Return what a file imports anywhere, also what only a type checker reads."""
    return frozenset(name for node in _nodes(path) for name in _names(node))


@cache
def _file_of(dotted: str) -> str | None:
    """Return the file of the project that a dotted name is, or is in."""
    parts = dotted.split(".")
    return next(
        (
            path
            for length in range(len(parts), 0, -1)
            for path in ("/".join(parts[:length]) + ".py", "/".join(parts[:length]) + "/__init__.py")
            if path in KNOWN
        ),
        None,
    )


def _layer(dotted: str) -> str | None:
    """Return the layer that a dotted name of the project is in, None for other packages."""
    parts = dotted.split(".")
    if parts[0] not in TOP:
        return None
    return _layer_of_file(_file_of(dotted) or "/".join(parts))


def _layer_of_file(name: str) -> str:
    """Return the layer of a file, by its folder and, where queries and settings are, by its own name."""
    if name == "lakehouse/settings.py":
        return "settings"
    if PURE_QUERIES.match(name):
        return "pure queries"
    parts = name.split("/")
    return "/".join(parts[:2]) if parts[0] == "lakehouse" else parts[0]


def _functions(path: Path) -> Iterator[tuple[str, int]]:
    for node in _nodes(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            told = (first.end_lineno or 0) - first.lineno + 1 if ast.get_docstring(node) else 0
            yield node.name, (node.end_lineno or 0) - node.lineno + 1 - told


# Words that say nothing of what a variable or function is, and the packages whose names are free of them.
VAGUE = {"told", "found", "said", "anew", "here", "each", "place", "settle", "brought", "news"}
IN_WORDS_OF_THE_FIELD = (
    "lakehouse/algorithms/multiway_join/",
    "lakehouse/algorithms/rollup/",
    "lakehouse/algorithms/scheduling/",
    "lakehouse/cli/",
    "lakehouse/service/",
    "lakehouse/simulator/",
    "jobs/",
    "dags/",
    "quality/",
    "infra/",
)
# A word of every kind of query, whose packages are not among these.
SHARED = {"found_in_words"}


def test_imports_go_one_way() -> None:
    wrong = {}
    for name in (name for name in NAMES if not name.startswith(FREE)):
        home = _layer_of_file(name)
        reached = {layer for each in _imports(ROOT / name) if (layer := _layer(each))}
        wrong[name] = reached - {home} - MAY_IMPORT[home]

    assert {name: layers for name, layers in wrong.items() if layers} == {}


def test_no_files_import_each_other_in_a_circle() -> None:
    """Imports inside functions, and those that only a type checker reads, count too."""
    above = {name: {_file_of(each) for each in _imports(ROOT / name)} - {None, name} for name in NAMES}
    circling = []
    for name in NAMES:
        reached, waiting = set[str](), list(above[name])
        while waiting:
            if (each := waiting.pop()) and each not in reached:
                reached.add(each)
                waiting += above[each]
        circling += [name] if name in reached else []

    assert circling == []


def test_no_packages_import_each_other_in_a_circle() -> None:
    def package(name: str) -> str:
        return "/".join(name.split("/")[:-1][:2])

    above: dict[str, set[str]] = {package(name): set() for name in NAMES}
    for name in NAMES:
        files = {_file_of(one) for one in _imports(ROOT / name)} - {None}
        above[package(name)] |= {package(str(file)) for file in files} - {package(name)}
    circling = []
    for name in above:
        reached, waiting = set[str](), list(above[name])
        while waiting:
            if (one := waiting.pop()) not in reached:
                reached.add(one)
                waiting += above[one]
        circling += [name] if name in reached else []

    assert circling == []


def test_no_folder_has_more_than_twenty_files() -> None:
    counts = Counter(path.parent.relative_to(ROOT).as_posix() for path in MODULES)

    assert {folder: count for folder, count in counts.items() if count > MOST_FILES} == {}


def _kind_of(name: str) -> str | None:
    """Return the kind of query that a file or a dotted name belongs to: its folder, or its text; None for none."""
    belonging = re.match(r"lakehouse[./](?:cli[./])?queries[./](\w+)", name)
    return belonging[1] if belonging and belonging[1] in KINDS else None


def test_a_kind_of_query_is_reached_through_the_registry_alone() -> None:
    """No kind imports another, and nothing else imports a kind."""
    wrong = {}
    for name in NAMES:
        reached = {kind for imported in _imports(ROOT / name) if (kind := _kind_of(imported))}
        wrong[name] = reached - {_kind_of(name)}

    assert {name: reached for name, reached in wrong.items() if reached} == {}


def test_a_kind_of_query_has_the_files_that_the_registry_names() -> None:
    described = (line.strip().split() for line in (kind_module.__doc__ or "").splitlines())
    named = {words[0] for words in described if words and words[0].endswith(".py")}

    assert named > OPTIONAL_FILES
    for kind in kinds():
        assert [file for file in named - OPTIONAL_FILES if not kind.has(file.removesuffix(".py"))] == []
        assert f"lakehouse/cli/queries/{kind.name}.py" in KNOWN


def test_nobody_asks_for_the_class_of_a_query() -> None:
    asked = re.compile(r"isinstance\([^()]*\b(\w+Query)\b")
    found = {name: asked.findall((ROOT / name).read_text(encoding="utf-8")) for name in NAMES}

    assert {name: classes for name, classes in found.items() if classes} == {}


@pytest.mark.parametrize("package", ONLY_IN)
def test_a_framework_is_imported_in_its_own_layer_only(package: str) -> None:
    for name in NAMES:
        imported = {found.split(".")[0] for found in _imports(ROOT / name)}
        assert package not in imported or name.startswith(ONLY_IN[package]), f"{name} imports {package}"


def test_dags_name_no_framework_but_airflow_and_import_jobs_inside_tasks_only() -> None:
    for path in (ROOT / "dags").glob("*.py"):
        named = {name for node in _tree(path).body for name in _names(node)} - PARSED
        assert {name.split(".")[0] for name in named} <= {
            "__future__",
            "airflow",
            "collections",
            "dags",
            "datetime",
            "functools",
            "logging",
            "json",
            "os",
            "pathlib",
            "typing",
        }, path


def test_algorithms_import_numpy_and_numba_and_the_standard_library_only() -> None:
    for path in (ROOT / "lakehouse" / "algorithms").rglob("*.py"):
        imported = {name.split(".")[0] for name in _imports(path)} - {"lakehouse"}
        assert imported <= PURE | sys.stdlib_module_names, path


def test_yardsticks_are_as_pure_as_what_they_judge() -> None:
    ours = ("lakehouse.algorithms.", "tests.oracles.")
    for path in (ROOT / "tests" / "oracles").rglob("*.py"):
        imported = {name.split(".")[0] for name in _imports(path) if not name.startswith(ours)}
        assert imported <= PURE | sys.stdlib_module_names, path


def test_nothing_of_the_product_imports_tests() -> None:
    for path in MODULES:
        assert "tests" not in {name.split(".")[0] for name in _imports(path)}, path


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("lakehouse.algorithms", {"pyspark", "duckdb", "airflow", "pandas", "delta"}),
        ("lakehouse.settings", {"pyspark", "duckdb", "airflow", "pandas", "delta", "numba"}),
        ("lakehouse.serving", {"pyspark", "airflow", "delta", "great_expectations"}),
        ("lakehouse.cli", {"pyspark", "airflow", "delta", "duckdb", "great_expectations", "pandas", "numba"}),
        ("quality.rules", {"great_expectations", "duckdb", "airflow"}),
    ],
)
def test_importing_a_layer_leaves_the_others_out(module: str, absent: set[str]) -> None:
    script = f"import sys, {module}\nprint(*sorted({absent!r} & set(sys.modules)))"

    found = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert found.stdout.split() == []


def test_a_module_explains_itself_and_stays_short() -> None:
    lines = {name: len((ROOT / name).read_text(encoding="utf-8").splitlines()) for name in NAMES}

    assert [name for name in NAMES if not ast.get_docstring(_tree(ROOT / name))] == []
    assert [name for name, count in lines.items() if count >= 400] == []


def _first_word(docstring: str | None) -> str:
    return (docstring or "-").split()[0]


def test_docstrings_begin_with_a_noun_or_a_verb_and_with_no_question_word() -> None:
    asks = {"What", "Which", "Who", "Whose", "How", "Whether", "When", "Until", "Where", "Why"}
    kinds_of_node = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [(name, node) for name in NAMES for node in ast.walk(_tree(ROOT / name))]
    openings = [
        (name, _first_word(ast.get_docstring(node, clean=False)))
        for name, node in nodes
        if isinstance(node, kinds_of_node)
    ]
    # Tests are three fifths of the code, and only their files' own docstrings count: nothing else is parsed.
    for path in (ROOT / "tests").rglob("*.py"):
        opening = FIRST_DOCSTRING.match(path.read_text(encoding="utf-8"))
        openings.append((str(path), _first_word(opening and opening[1])))

    assert [each for each in openings if each[1] in asks] == []


def test_names_are_nouns_of_the_field() -> None:
    done = [name for name in NAMES if name.startswith(IN_WORDS_OF_THE_FIELD)]
    named = {
        (name, word)
        for name in done
        for node in ast.walk(_tree(ROOT / name))
        for word in _names_given(node)
        if VAGUE & set(word.strip("_").split("_")) and word not in SHARED
    }

    assert done and named == set()


def _names_given(node: ast.AST) -> Iterator[str]:
    """Yield the names that a definition, an argument or an assignment gives."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        yield node.attr


def test_nine_functions_of_ten_are_at_most_25_lines_and_none_is_above_60() -> None:
    sizes = sorted(
        (lines, f"{path.relative_to(ROOT)}:{name}") for path in MODULES for name, lines in _functions(path)
    )

    assert sizes[int(len(sizes) * 0.9)][0] <= 25
    assert sizes[-1][0] <= 60, sizes[-1]


def _changed(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the collections of a module that its functions change, each with the line that makes it."""
    made: dict[str, int] = {}
    for line in _tree(path).body:
        targets = line.targets if isinstance(line, ast.Assign) else [getattr(line, "target", None)]
        value = getattr(line, "value", None)
        if isinstance(value, ast.Dict | ast.List | ast.Set | ast.DictComp | ast.ListComp | ast.Call):
            made |= {target.id: line.lineno for target in targets if isinstance(target, ast.Name)}
    defined = (part for part in _tree(path).body if isinstance(part, ast.FunctionDef | ast.ClassDef))
    for node in (inner for part in defined for inner in ast.walk(part)):
        held = None
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            held = node.value
        elif (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES
        ):
            held = node.func.value
        elif isinstance(node, ast.Global):
            yield from ((name, made.get(name, node.lineno)) for name in node.names)
        if isinstance(held, ast.Name) and held.id in made:
            yield held.id, made[held.id]


def test_nothing_that_a_module_holds_is_changed_but_what_belongs_to_the_process() -> None:
    changed = {name: dict(_changed(ROOT / name)) for name in NAMES}
    changed = {name: held for name, held in changed.items() if held}

    assert {name: set(held) for name, held in changed.items()} == OF_THE_PROCESS
    for name, held in changed.items():
        lines = (ROOT / name).read_text("utf-8").splitlines()
        assert any(lines[line - 2].startswith("#") for line in held.values()), name


def test_nothing_above_storage_asks_whether_a_path_is_on_a_store() -> None:
    asked = re.compile(r"isinstance\([^()]*\bStorePath\b")
    above = [name for name in NAMES if not name.startswith("lakehouse/storage/")]

    assert [name for name in above if asked.search((ROOT / name).read_text(encoding="utf-8"))] == []


def test_jobs_are_short_and_dag_files_shorter() -> None:
    lines = {name: len((ROOT / name).read_text(encoding="utf-8").splitlines()) for name in NAMES}

    assert [name for name, count in lines.items() if name.startswith("jobs/") and count > 150] == []
    assert [name for name, count in lines.items() if name.startswith("dags/") and count > 70] == []


def test_no_file_has_a_name_that_says_nothing() -> None:
    named = [part for name in NAMES for part in Path(name).with_suffix("").parts]

    assert sorted(FORBIDDEN & {word for part in named for word in part.split("_")}) == []


def test_every_function_says_what_it_returns() -> None:
    silent = [
        f"{path.relative_to(ROOT)}:{node.name}"
        for path in MODULES
        for node in _nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is None
    ]

    assert silent == []


def test_jobs_and_dags_pair_up() -> None:
    from jobs.run_dags import ORDER, WATCHING

    assert sorted((*ORDER, *WATCHING)) == sorted(path.stem for path in (ROOT / "dags").glob("[a-z]*.py"))
