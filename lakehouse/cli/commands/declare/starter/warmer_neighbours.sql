-- Two sensors at one place, read within five seconds of each other, one of them more than a degree warmer.
-- Readings come late: at least 95 of 100 pairs are found at once, and the repair finds the others.
SELECT
    warm.location,
    warm.device AS warmer,
    cool.device AS cooler,
    warm.temp AS warm_temp,
    cool.temp AS cool_temp
FROM telemetry [RANGE 5 SECONDS] warm
JOIN telemetry cool
    ON warm.location = cool.location
    AND warm.temp > cool.temp + 1
RECALL 0.95 OVER 10 MINUTES
EVERY 10 SECONDS
