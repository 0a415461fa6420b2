-- How many pairs of connections between the same two hosts began in the last hour, every minute.
-- Zeek writes a connection when it ends: those that end within ten minutes revise the answers at once, the repair counts the others.
SELECT COUNT(*) FROM conn [60 MINUTE] A, conn [60 MINUTE] B WHERE A.src = B.src AND A.dest = B.dest
EVERY 1 MINUTE
SLACK 10 MINUTES
