"""Columns that must be equal, as classes: what a class has of several sides is a join attribute.

Equality passes on: of ``a.x = b.x AND b.x = c.y`` all three columns are one class, however it is written.
"""

from __future__ import annotations

from collections.abc import Iterable

# A column of a side, by the side's number.
Place = tuple[int, str]


class Equated:
    """Classes of equal columns; a column that was never named is a class of its own."""

    def __init__(self) -> None:
        self._class_of: dict[Place, set[Place]] = {}

    def add(self, one: Place, two: Place) -> None:
        """Let two columns be equal, and with them all that are equal to either."""
        both = self.class_of(one) | self.class_of(two)
        for place in both:
            self._class_of[place] = both

    def class_of(self, place: Place) -> set[Place]:
        """Return a column and all that are equal to it."""
        return self._class_of.get(place, {place})

    def are_equal(self, places: Iterable[Place]) -> bool:
        """Tell if columns, one at least, are all of one class."""
        first, *others = places
        return self.class_of(first).issuperset(others)

    def classes(self) -> list[set[Place]]:
        """Return every class of two columns or more."""
        return list({id(each): each for each in self._class_of.values()}.values())
