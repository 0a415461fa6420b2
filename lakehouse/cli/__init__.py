"""The command `tidemark`: one file per command, each loading the layer it needs when it is called.

app.py      global options, how errors end, exit codes
options.py  the global options; parsers of times, shares and key=value
output.py   JSON, tables and errors as text
commands/   one file per command
charts/     the charts of `plot` and `explain`, in the terminal and on pages
pages/      the output of `status` and `explain`

Importing this package loads typer and nothing of Tidemark's other layers.
"""

from lakehouse.cli.app import app, main

__all__ = ["app", "main"]
