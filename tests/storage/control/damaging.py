"""Rows of a control store that a disk has changed."""

from __future__ import annotations

from lakehouse.storage.control.manifests import Manifests
from lakehouse.storage.layout import Part


def flip(part: Part, number: int, series: str = "") -> None:
    """Change one character of a manifest, as a disk does that says nothing; a second call changes it back."""
    manifests = Manifests(part, series)
    values = {"part": manifests.part, "number": number}
    ((body,),) = manifests.store.rows(
        "SELECT body FROM tidemark_manifests WHERE home = :home AND part = :part AND number = :number",
        **values,
    )
    place = len(body) // 2
    flipped = body[:place] + chr(ord(body[place]) ^ 1) + body[place + 1 :]
    change = (
        "UPDATE tidemark_manifests SET body = :body WHERE home = :home AND part = :part AND number = :number"
    )
    manifests.store.change(change, body=flipped, **values)
