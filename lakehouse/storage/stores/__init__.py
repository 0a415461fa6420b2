"""Object stores: clients, paths, and how Arrow, DuckDB and deltalake reach them."""
