"""The files of a home, read and written without an engine: paths, table logs, leases, ledgers."""
