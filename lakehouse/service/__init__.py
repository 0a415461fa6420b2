"""The continuous service, and what others can see of it; it names no engine.

tasks           one task that probes before it works, and waits longer each time it fails
workers         threads that run tasks, their stop, and the heartbeat
stopping        the effects of the first and the second signal
freshness       the time of rows from their arrival to the published answer
metrics         figures of a home in Prometheus' form, read from its files
metrics_server  the address at which a service shows them
logs            log lines for people, or as JSON
lineage         the inputs and outputs of a job, as OpenLineage events
notify          messages of a service to systemd
"""
