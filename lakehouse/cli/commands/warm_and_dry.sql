-- Rooms where warm readings stand beside dry ones within ten minutes: an alarm while there are more than five pairs.
-- Answers are given every minute; rows up to half an hour late revise them at once, older ones with the repair.
SELECT location, COUNT(*) FROM telemetry A[10 MINUTE], telemetry B[10 MINUTE]
WHERE A.location = B.location AND A.temp >= 23 AND B.humidity < 44
GROUP BY location HAVING COUNT(*) > 5
EVERY 1 MINUTE
SLACK 30 MINUTES
ALARM
