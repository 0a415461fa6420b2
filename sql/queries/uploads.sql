-- TCP connections out of the office's network that send more than they fetch.
SELECT uid, src, dest, orig_bytes, resp_bytes, duration FROM conn
WHERE src LIKE '192.168.%' AND NOT dest LIKE '192.168.%' AND proto = 'tcp' AND orig_bytes > resp_bytes
DEADLINE 600 MILLISECONDS
