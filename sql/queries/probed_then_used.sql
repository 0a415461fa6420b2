-- Probes of a port that are followed within ten minutes by a connection between the same two hosts that was taken up.
-- Who probes and then talks has found something. The scan of conn is shared with the selections that ask the same.
SELECT
    probe.src,
    probe.dest,
    probe.uid AS probe_uid,
    used.uid AS used_uid,
    probe.event_us AS probed_us,
    used.event_us AS used_us
FROM conn [RANGE 10 MINUTES] probe
JOIN conn [RANGE 10 MINUTES] used
    ON probe.src = used.src
    AND probe.dest = used.dest
    AND probe.event_us < used.event_us
WHERE looks_scanned(probe.state, probe.history) AND used.state = 'SF'
RECALL 0.95 OVER 10 MINUTES
EVERY 10 SECONDS
