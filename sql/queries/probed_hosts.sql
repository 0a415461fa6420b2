-- A host that another one reaches over TCP, UDP and ICMP, all within ten minutes.
-- Few connections are ICMP, so where keys are counted next to nothing of the other two leaves its window.
SELECT t.src, t.dest, t.uid AS tcp_uid, u.uid AS udp_uid, i.uid AS icmp_uid
FROM conn [10 MINUTES] t
JOIN conn [10 MINUTES] u ON t.src = u.src AND t.dest = u.dest
JOIN conn [10 MINUTES] i ON u.src = i.src AND u.dest = i.dest
WHERE t.proto = 'tcp' AND u.proto = 'udp' AND i.proto = 'icmp'
SLACK 10 MINUTES
