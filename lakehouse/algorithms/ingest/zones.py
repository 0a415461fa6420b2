"""Time zones by their name, or by an offset that clocks keep all year."""

import re
from datetime import timedelta, timezone, tzinfo
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

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


@cache
def _names() -> frozenset[str]:
    return frozenset(available_timezones())


def is_zone(name: str) -> bool:
    """Return whether a text is the name of a zone, or an offset.

    Cost: a look into a set, so that texts of records may be asked about.
    """
    if not _OFFSET.fullmatch(name):
        return name in _names()
    try:
        zone_of(name)
    except ValueError:
        return False
    return True
