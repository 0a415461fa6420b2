"""Other people's SQL on a published version, read-only and under hard limits."""
