-- The alarms of one registered join-aggregate as they stand: a view over the table of alarms.sql.
--
-- Purpose:    the newest change of each alarm.
-- Parameters: {table}, {alarms}, {names}, {final}: the publisher fills in table and view, the query's own columns, what is final.
-- Usage:      see alarms.sql.

CREATE VIEW {alarms} AS
    SELECT alarm, {names}state, raised_at, cleared_at, change AS changes, merged_into, {final} AS final, raised_us, cleared_us
    FROM {table} WHERE is_newest;
COMMENT ON COLUMN {alarms}.alarm IS 'The alarm: stays the same while its times change.';
COMMENT ON COLUMN {alarms}.state IS 'raised: HAVING holds; cleared: it held from raised_at until cleared_at; withdrawn: later rows show it never did.';
COMMENT ON COLUMN {alarms}.raised_at IS 'The first tick at which HAVING held, in UTC.';
COMMENT ON COLUMN {alarms}.cleared_at IS 'The first tick at which it held no longer, in UTC; null while it holds.';
COMMENT ON COLUMN {alarms}.changes IS 'How often its state or times have changed since it was raised; see alarm_changes.';
COMMENT ON COLUMN {alarms}.merged_into IS 'The alarm that has this one''s time now, where later rows have closed the gap between both.';
COMMENT ON COLUMN {alarms}.final IS 'Rows later than the streams'' `latest` apart, none to come can change it, and none waits for the repair.';
COMMENT ON COLUMN {alarms}.raised_us IS 'raised_at in microseconds.';
COMMENT ON COLUMN {alarms}.cleared_us IS 'cleared_at in microseconds.';
