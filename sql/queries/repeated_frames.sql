-- The same LoRaWAN frame heard by two gateways within two seconds: the stronger reception beside the weaker one.
-- Receptions of equal strength are left out, and so is each reception beside itself.
-- Gateways' clocks are set by hand: one that is an hour ahead must not push all others out of the window.
SELECT
    strong.device,
    strong.frame,
    strong.gateway AS stronger,
    weak.gateway AS weaker,
    strong.event_us AS heard_us,
    weak.event_us AS heard_again_us,
    strong.rssi AS stronger_rssi,
    weak.rssi AS weaker_rssi
FROM lora [RANGE 2 SECONDS] strong
JOIN lora [RANGE 2 SECONDS] weak
    ON strong.device = weak.device
    AND strong.frame = weak.frame
    AND strong.rssi > weak.rssi
RECALL 0.95 OVER 1 HOUR
EVERY 1 MINUTE
IDLE 10 MINUTES
AHEAD 1 HOUR
