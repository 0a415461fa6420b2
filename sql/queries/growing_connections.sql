-- Connections between the same two hosts that start within a minute of each other, the later one moving more bytes.
-- Zeek writes a connection when it ends, so long ones come late: the answer now holds 95 of 100 pairs, the repair all.
-- Only TCP; a connection without a byte count joins nothing.
SELECT
    before.src,
    before.dest,
    before.uid AS first_uid,
    after.uid AS second_uid,
    before.event_us AS started_us,
    after.event_us AS followed_us,
    after.resp_bytes AS second_bytes
FROM conn [RANGE 1 MINUTE] before
JOIN conn [RANGE 1 MINUTE] after
    ON before.src = after.src
    AND before.dest = after.dest
    AND before.event_us < after.event_us
    AND before.resp_bytes < after.resp_bytes
WHERE before.proto = 'tcp' AND after.proto = 'tcp'
RECALL 0.95 OVER 10 MINUTES
EVERY 10 SECONDS
