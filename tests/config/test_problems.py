from __future__ import annotations

from lakehouse.config.problems import ConfigError, Problem

PROBLEM = Problem("home", "3", "a folder")


def test_a_problem_says_key_found_and_expected() -> None:
    assert str(PROBLEM) == "home: found 3; expected a folder"


def test_an_error_tells_all_problems_and_where_they_are() -> None:
    error = ConfigError("tidemark.toml", [PROBLEM, Problem("levels", "[]", "at least one")])

    assert str(error).splitlines() == [
        "tidemark.toml: 2 problems",
        "  home: found 3; expected a folder",
        "  levels: found []; expected at least one",
    ]
    assert str(ConfigError("x", [PROBLEM])).startswith("x: 1 problem\n")
