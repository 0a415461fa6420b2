"""The configuration that the user writes: ``tidemark.toml``, streams and columns, checked before anything runs."""
