"""Rules of a stream, as ``[[streams.<name>.rules]]`` declares them.

values.py      about values of rows and columns, as Great Expectations has them
suites.py      the same, read from files in the format of Great Expectations
over_time.py   freshness, volume, silence, lateness and the like, which it has not
checks.py      problems that need the stream to be seen
"""

from lakehouse.config.rules.values import EXPECTATIONS as EXPECTATIONS
from lakehouse.config.rules.values import Rule as Rule
