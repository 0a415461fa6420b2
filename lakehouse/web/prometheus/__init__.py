"""Prometheus' query API over published versions: Grafana and every other client of it, without a plugin."""
