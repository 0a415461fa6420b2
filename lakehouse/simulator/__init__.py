"""Files as real devices send them: late, repeated, contradicting, dirty; and the truth about what was written.

    plan.py       what to simulate, checked whole
    timeline.py   when rows happen: schedules and gaps
    delays.py     when rows arrive: distributions, measured delays, an exact share of late rows
    faults.py     which rows are broken, repeated or contradicted
    form.py       how a stream's columns become lines of text
    sensors.py    the stream `telemetry`: devices with a daily cycle, ndjson
    flows.py      the stream `flows`: network connections with heavy tails, csv
    arrays.py     Arrow arrays straight from memory
    landing.py    files that appear whole and never share a name
    truth.py      what the files hold, to compare a ledger with
    counting.py   the truth, counted from what is written
    simulate.py   all of it together

The same plan and seed give the same bytes. A second call goes on in time where the first one ended.
"""
