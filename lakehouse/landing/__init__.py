"""Programs that put what is no file into landing files: an MQTT broker's messages, this machine's own state.

spool.py     lines into files that appear whole; what is written is safe before it is acknowledged
repeats.py   which message is a redelivery of one that was already written
broker.py    a connection to a broker: who asks, for what, how
bridge.py    messages of a broker -> spool
host.py      what this machine's sensors and connections say now
collector.py host -> spool, at an interval
running.py   until when a program runs, and what it says of itself meanwhile
"""
