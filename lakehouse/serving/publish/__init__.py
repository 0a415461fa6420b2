"""Publishing: a version is built, compared with the rollups' totals, and shown."""
