"""The command `tidemark`: one file per command, each loading the layer it needs when it is called.

    app.py      global options, how errors end, exit codes
    options.py  what the global options mean; readers of times, shares and key=value
    picture.py  terminal_chart.py  html_chart.py   what `plot` draws
    explain_text.py  explain_charts.py  explain_page.py   what `explain` prints and draws
    operator_text.py   the same of conditions that are asked one by one; figures.py: how shares and times are written
    aggregate_text.py  aggregate_charts.py  aggregate_page.py   the same of a join-aggregate
    svg.py      frames, axes, lines and bands of charts on pages
    output.py   JSON, tables and errors as text
    init.py  simulate.py  bridge.py  collect.py  run.py  ask.py  plot.py  sql.py  status.py  plan.py  queries.py
    explain.py  doctor.py  requeue.py  rebuild.py  retract.py  airflow.py

Importing this package loads typer and nothing of Tidemark's other layers.
"""

from __future__ import annotations

from lakehouse.cli.app import app, main

__all__ = ["app", "main"]
