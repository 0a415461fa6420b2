"""Pure methods over numbers and arrays: no I/O, no clock, no framework; numpy and numba at most.

One folder is one problem, one file in it one method. ``README.md`` says which method the product runs, which
file calls it, and where each comes from. Yardsticks and baselines are in ``tests/oracles``, in the same folders.

The top level is bare on purpose: import what you need from the folders.
"""
