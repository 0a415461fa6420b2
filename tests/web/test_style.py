"""The colours of a chart stay apart for eyes without one of the three cones, on paper and on a dark screen.

Sight without a cone as Machado, Oliveira and Fernandes (2009) model it; distance in CIELAB, where 2 is just noticeable.
"""

from __future__ import annotations

import re
from itertools import combinations
from math import dist

import pytest

from lakehouse.web.assets import style

Colour = tuple[float, ...]
Matrix = tuple[tuple[float, float, float], ...]
SIGHTS: dict[str, Matrix] = {
    "full": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "without red": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "without green": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "without blue": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
TO_XYZ: Matrix = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
WHITE = (0.9505, 1.0, 1.089)


def palettes() -> list[tuple[Colour, list[Colour]]]:
    """The paper and the lines of both schemes, light first, as linear light."""
    papers = re.findall(r"--ground: (#\w{6})", style())
    lines = re.findall(r"--c\d: (#\w{6})", style())
    return [(_linear(paper), [*map(_linear, lines[6 * i : 6 * i + 6])]) for i, paper in enumerate(papers)]


def _linear(colour: str) -> Colour:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return tuple(part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)


def _turned(matrix: Matrix, colour: Colour) -> Colour:
    return tuple(sum(a * b for a, b in zip(row, colour, strict=True)) for row in matrix)


def _lab(colour: Colour) -> Colour:
    seen = _turned(TO_XYZ, tuple(min(max(part, 0.0), 1.0) for part in colour))
    x, y, z = (
        part ** (1 / 3) if part > 0.008856 else 7.787 * part + 16 / 116
        for part in (a / b for a, b in zip(seen, WHITE, strict=True))
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_any_two_lines_can_be_told_apart(scheme: int, sight: str) -> None:
    seen = [_lab(_turned(SIGHTS[sight], colour)) for colour in palettes()[scheme][1]]

    assert len(seen) == 6
    assert min(dist(one, other) for one, other in combinations(seen, 2)) > 25


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_every_line_stands_out_from_the_paper(scheme: int) -> None:
    paper, lines = palettes()[scheme]

    for line in lines:
        darker, lighter = sorted(_turned(TO_XYZ, colour)[1] for colour in (paper, line))
        assert (lighter + 0.05) / (darker + 0.05) > 2.5
