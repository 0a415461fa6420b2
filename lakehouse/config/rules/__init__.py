"""Rules of a stream, as ``[[streams.<name>.rules]]`` declares them."""

from lakehouse.config.rules.values import EXPECTATIONS as EXPECTATIONS
from lakehouse.config.rules.values import Rule as Rule
