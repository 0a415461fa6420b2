"""Published versions on disk and on an object store: pointer, locks, downloads."""

from __future__ import annotations
