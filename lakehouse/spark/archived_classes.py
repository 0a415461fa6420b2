"""The archive of Spark's classes: what the JVM makes of them when it loads them, kept so that sessions start faster.

Made by ``python -m infra.class_archive``; sessions start without where there is none.
"""

import sys
from pathlib import Path

# The JVM would print a line for each class that it cannot archive, and for an archive that does not fit.
QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"


def archive_file() -> Path:
    """Return where the archive is kept."""
    return Path(sys.prefix) / "share" / "tidemark" / "classes.jsa"


def archive_option() -> str:
    """Return what lets a JVM start from the archive, nothing where there is none.

    The JVM checks that Java and the class path are those that it was made with, and loads classes as usual if not.
    """
    kept = archive_file()
    return f'"-XX:SharedArchiveFile={kept}" {QUIET}' if kept.is_file() else ""
