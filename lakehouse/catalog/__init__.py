"""The names of things, read once: durations, streams, settings and where each table lives.

durations.py   "1h", "2d", "forever" <-> microseconds
columns.py     what one declared column is: type, path or position
stream.py      one stream: times, identity, keys, measures, levels, source
checks.py      what pydantic cannot see: names that must agree, levels that must nest
settings.py    tidemark.toml + environment -> Settings, or every problem at once
layout.py      where a table, checkpoint or report lives under the home
"""
