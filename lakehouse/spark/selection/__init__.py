"""Registered selections inside the stream job: their rows come out of shared scans (``lakehouse.spark.scan``).

tables.py      the tables of a selection
online.py      a batch of a selection
"""
