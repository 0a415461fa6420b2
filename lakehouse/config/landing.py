"""The landing folder of a source, and the names that its files have below it.

Files are known by these names: a project that is moved, or restored elsewhere, has read what it had read. The landing
folder is what a source's path has before its pattern: ``/data/in`` of ``/data/in/*/2026-*.csv``, or the same of a URL.
"""

import os

from lakehouse.config.store_address import address_of, fixed_part, is_remote


def landing_folder(pattern: str) -> str:
    """Return what the names of a source's files begin behind, with a slash at its end."""
    if is_remote(pattern):
        place = address_of(pattern)
        return place._replace(key=fixed_part(place.key)).url.rpartition("/")[0] + "/"
    return os.path.join(os.path.abspath(os.path.dirname(fixed_part(pattern))), "")


def name_in_landing(pattern: str, path: str) -> str:
    """Return the name of a file; one that is not below the landing folder keeps its whole path."""
    return path.removeprefix(landing_folder(pattern))


def located(pattern: str, name: str) -> str:
    """Return the path or URL of a file of a source."""
    is_whole = is_remote(name) or (name.startswith("/") and not is_remote(pattern))
    return name if is_whole else landing_folder(pattern) + name
