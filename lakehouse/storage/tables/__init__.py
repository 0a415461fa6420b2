"""Delta tables without an engine: their logs, commits, files and housekeeping."""
