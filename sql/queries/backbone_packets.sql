-- The same of packets: pairs between the same two addresses in the last hour.
SELECT COUNT(*) FROM packets [60 MINUTE] A, packets [60 MINUTE] B WHERE A.src = B.src AND A.dest = B.dest
EVERY 1 MINUTE
SLACK 1 SECOND
