-- TCP connections of the office's own hosts that look like a probe of a port: begun, and not taken up.
SELECT uid, src, dest, state, history FROM conn
WHERE looks_scanned(state, history) AND src LIKE '192.168.%' AND proto = 'tcp'
