"""Report on a stream's quality for whoever reads its data: what came in, how new it is, and which rules hold.

report.py     a stream's or query's report of a day, as plain values
verdicts.py   the rules of a stream with their last runs, from the history of checks
changes.py    rules that hold no longer, and those that hold again
"""
