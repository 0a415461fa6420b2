-- Rooms with warm and dry readings within ten minutes. An alarm is raised while there are more than five such pairs.
-- The query is answered every minute. Rows up to half an hour late revise answers at once, later ones with the repair.
SELECT location, COUNT(*) FROM telemetry A[10 MINUTE], telemetry B[10 MINUTE]
WHERE A.location = B.location AND A.temp >= 23 AND B.humidity < 44
GROUP BY location HAVING COUNT(*) > 5
EVERY 1 MINUTE
SLACK 30 MINUTES
ALARM
