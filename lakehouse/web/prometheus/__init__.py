"""Prometheus' query API over published versions: Grafana and every other client of it, without a plugin.

promql.py      the part of PromQL that range questions can answer; the rest is refused by name
evaluate.py    a question at one time or at many -> series, with warnings about values that are not final;
               ALERTS: the alarms of registered queries
metrics.py     metrics, labels and their values, as Prometheus lists them
routes.py      the addresses
"""
