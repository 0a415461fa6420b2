"""What runs without pause, and what is seen of it from outside; it names no engine.

tasks           one step that probes before it works, and waits longer each time it fails
workers         threads of tasks beside each other, their stop, and the heartbeat
stopping        what the first signal and the second one do
freshness       how long rows take from their arrival to the published answer
metrics         figures of a home in Prometheus' form, read from its files
metrics_server  the address at which a service shows them
logs            log lines for people, or as JSON
lineage         what a job read and wrote, as OpenLineage events
notify          what systemd is told of a service
"""
