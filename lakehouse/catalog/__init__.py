"""The names of things, read once: durations, streams, settings and where each table lives.

durations.py   "1h", "2d", "forever" <-> microseconds
columns.py     what one declared column is: type, path or position
stream.py      one stream: times, identity, keys, measures, levels, source
checks.py      what pydantic cannot see: names that must agree, levels that must nest
refusals.py    what pydantic refused, in our words, and what else is wrong beside it
settings.py    tidemark.toml + environment -> Settings, or every problem at once
queries.py     registered queries: SQL files -> JoinQuery, or every fault with line and column
query_text.py  windows and trailing clauses, cut out of the SQL
query_names.py, query_filters.py, query_conditions.py   columns of the sides; what filters one; what joins both
places.py      which configuration and which home a command works on
outcomes.py    how each job last ended
built.py       what a rollup table was built for, and what it lacks
carried.py     what of an old rollup goes over into one of another declaration
redeclared.py  what a changed declaration will do
table_log.py   what a Delta table's log says: properties, files, rows
corrections.py what was changed in a stream's history after it had been taken in
layout.py      where a table, checkpoint or report lives under the home
"""
