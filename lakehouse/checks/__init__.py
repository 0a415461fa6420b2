"""Checks of a stream's tables: small frames of deviations, which the rules of quality judge.

checks.py        deviations of raw, quarantine and ledger; rollup_checks.py: of the rollup
file_figures.py  sums of files, by tasks; repeats.py: identities that stand twice
stream_rules.py  rules that the stream declares
"""
