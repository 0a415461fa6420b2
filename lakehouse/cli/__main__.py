"""``python -m lakehouse.cli`` is ``tidemark``."""

from __future__ import annotations

from lakehouse.cli.app import main

main()
