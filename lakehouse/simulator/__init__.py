"""Files as real devices send them: late, repeated, contradicting, dirty; and true counts of the written rows.

    plan.py       the plan of a simulation, checked completely
    timeline.py   when rows happen: schedules and gaps
    delays.py     when rows arrive: distributions, measured delays, an exact share of late rows
    faults.py     which rows are broken, repeated or contradicted
    form.py       how a stream's columns become lines of text
    sensors.py    the stream `telemetry`: devices with a daily cycle, ndjson
    flows.py      the stream `flows`: network connections with heavy tails, csv
    arrays.py     Arrow arrays directly from memory
    truth.py      the contents of the files and true counts of their rows, for comparison with a ledger
    simulate.py   runs all of it

The same plan and seed give the same bytes. A second call continues in time where the first one ended.
"""
