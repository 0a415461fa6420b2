"""Programs that write landing files: from an MQTT broker's messages, and from this machine's own state.

spool.py     lines into files that appear complete; lines are on disk before they are acknowledged
repeats.py   which message is a redelivery of one that was already written
broker.py    a connection to a broker: client, topics, options
bridge.py    messages of a broker -> spool
host.py      the present readings of this machine's sensors, and its connections
collector.py host -> spool, at an interval
running.py   how long a program runs, and its heartbeats
"""
