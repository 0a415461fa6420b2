"""The command `tidemark`: one file per command, each loading the layer it needs when it is called.

app.py      global options, how errors end, exit codes
options.py  what the global options mean; readers of times, shares and key=value
output.py   JSON, tables and errors as text
commands/   one file per command
charts/     what `plot` and `explain` draw, in the terminal and on pages
pages/      what `status` and `explain` print

Importing this package loads typer and nothing of Tidemark's other layers.
"""

from __future__ import annotations

from lakehouse.cli.app import app, main

__all__ = ["app", "main"]
