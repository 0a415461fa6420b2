"""``python -m lakehouse.cli`` is ``tidemark``."""

from lakehouse.cli.app import main

main()
