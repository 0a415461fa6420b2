"""Time zones by their name, or by an offset that clocks keep all year."""

import re
from datetime import timedelta, timezone, tzinfo
from functools import cache
from zoneinfo import ZoneInfo

EXPECTED = 'a time zone name such as "Europe/Paris", or an offset such as "+05:30"'
_OFFSET = re.compile(r"([+-])(\d\d):([0-5]\d)")


@cache
def zone_of(name: str) -> tzinfo:
    """Return the zone of a name such as Europe/Paris, or of an offset such as +05:30.

    Raises ValueError where there is none.
    """
    try:
        if offset := _OFFSET.fullmatch(name):
            sign, hours, minutes = offset.groups()
            ahead = timedelta(hours=int(hours), minutes=int(minutes))
            return timezone(-ahead if sign == "-" else ahead)
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(f"expected {EXPECTED}") from error


def is_zone(name: str) -> bool:
    """Return whether a text is the name of a zone, or an offset."""
    try:
        zone_of(name)
    except ValueError:
        return False
    return True
