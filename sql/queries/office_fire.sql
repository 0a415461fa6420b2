-- The same in offices, which measure carbon dioxide: at least 40 degrees beside more than 800 ppm.
SELECT location, COUNT(*) FROM offices A[10 MINUTE], offices B[10 MINUTE]
WHERE A.location = B.location AND A.temperature >= 40 AND B.co2 > 800
GROUP BY location HAVING COUNT(*) > 5
EVERY 1 MINUTE
ALARM
