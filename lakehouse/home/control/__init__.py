"""The control store: the database in which several machines that share a home agree on who may write what."""
