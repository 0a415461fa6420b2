"""The names of things, read once: durations, streams, settings and where each table lives.

durations.py   "1h", "2d", "forever" <-> microseconds
columns.py     what one declared column is: type, path or position
stream.py      one stream: times, identity, keys, measures, levels, source
checks.py      what pydantic cannot see: names that must agree, levels that must nest
refusals.py    what pydantic refused, in our words, and what else is wrong beside it
settings.py    tidemark.toml + environment -> Settings, or every problem at once
queries.py     registered queries: SQL files -> JoinQuery, MultiwayQuery, AggregateQuery, SelectionQuery, or every fault
join_query.py, multiway_query.py, aggregate_query.py, selection_query.py   what each kind is, as running it needs it
query_text.py  windows and trailing clauses, cut out of the SQL by its tokens (query_tokens.py, query_clauses.py)
query_tree.py  the SELECT, its streams and windows; query_names.py, query_filters.py: columns, conditions on one row
query_joins.py pairs: query_conditions.py has what joins two streams, query_outputs.py what is shown
query_multiway.py   three to eight streams
query_selection.py   rows of one stream
row_conditions.py   conditions on one row of a stream; query_calls.py reads them, predicates.py what files of Python say
query_aggregates.py   aggregates: query_answers.py has groups, measures and HAVING
query_attributes.py what joins many streams
aggregate_form.py, aggregate_shape.py   one form for what means the same; what a method sees of it
sites.py       where streams are, and what moving rows between sites costs
places.py      which configuration and which home a command works on
outcomes.py    how each job last ended
built.py       what a rollup table was built for, and what it lacks
carried.py     what of an old rollup goes over into one of another declaration
redeclared.py  what a changed declaration will do
table_log.py   what a Delta table's log says: properties, files, rows
corrections.py what was changed in a stream's history after it had been taken in
lease.py       one writer of a table at a time
query_words.py what a join of pairs does, in words; multiway_words.py, aggregate_words.py,
               selection_words.py: the others; operator_words.py: conditions that are asked one by one
query_figures.py   what is finished of a registered query, and its figures
stopped.py     why a query stands still
forgetting.py  a registered query starts over
layout.py      where a table or report lives under the home
"""
