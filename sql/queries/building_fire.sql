-- A fire: readings of at least 40 degrees beside readings of less than 20 % oxygen at one location within ten minutes.
-- A fire eats oxygen; where smoke is measured, its strength stands for it.
SELECT location, COUNT(*) FROM heat A[10 MINUTE], oxygen B[10 MINUTE]
WHERE A.location = B.location AND A.temperature >= 40 AND B.percent < 20
GROUP BY location HAVING COUNT(*) > 5
EVERY 10 SECONDS
ALARM
