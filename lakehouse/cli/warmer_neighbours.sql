-- Two sensors at one place, read within a second of each other, one of them more than five degrees warmer.
-- Readings come late: at least 95 of 100 pairs are there at once, the repair finds the others.
SELECT
    warm.location,
    warm.device AS warmer,
    cool.device AS cooler,
    warm.temp AS warm_temp,
    cool.temp AS cool_temp
FROM telemetry [RANGE 1 SECOND] warm
JOIN telemetry cool
    ON warm.location = cool.location
    AND warm.temp > cool.temp + 5
RECALL 0.95 OVER 10 MINUTES
EVERY 10 SECONDS
