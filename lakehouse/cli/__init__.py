"""The command `tidemark`: one file per command, each loading the layer it needs when it is called.

Importing this package loads typer and nothing of Tidemark's other layers.
"""

from lakehouse.cli.app import app, main

__all__ = ["app", "main"]
