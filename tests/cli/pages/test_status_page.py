from __future__ import annotations

import pytest

from lakehouse.cli.pages.status_page import age


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59.9, "59 s"), (60, "1 min"), (3_660, "1 h 1 min"), (86_400, "1 d"), (90_061, "1 d 1 h")],
)
def test_an_age_is_told_in_its_two_largest_units(seconds: float, text: str) -> None:
    assert age(seconds) == text
