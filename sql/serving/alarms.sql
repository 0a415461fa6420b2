-- The published alarms of one registered join-aggregate: for how long HAVING held for a group.
--
-- Purpose:    alarm_changes_<query>: each change of each alarm; alarms_<query>: how each stands, its newest change.
-- Parameters: {changes}, {alarms}, {columns}, {names}, {final}: the publisher fills in the query's tables, its groups,
--             their names, and which ticks are final.
-- Usage:      SELECT raised_at, cleared_at, location FROM alarms_busy WHERE state <> 'withdrawn' ORDER BY raised_at DESC;
--
-- Sorted by the time at which they were raised.

CREATE TABLE {changes} (
    alarm VARCHAR, {columns}change INTEGER, state VARCHAR, raised_at TIMESTAMP, cleared_at TIMESTAMP, merged_into VARCHAR,
    is_newest BOOLEAN, found VARCHAR, batch BIGINT, raised_us BIGINT, cleared_us BIGINT
);
COMMENT ON COLUMN {changes}.alarm IS 'The alarm: stays the same while its times change.';
COMMENT ON COLUMN {changes}.change IS '0: it was raised; each later one changed its state or times.';
COMMENT ON COLUMN {changes}.state IS 'raised: HAVING holds; cleared: it held from raised_at until cleared_at; withdrawn: later rows show it never did.';
COMMENT ON COLUMN {changes}.raised_at IS 'The first tick at which HAVING held, in UTC.';
COMMENT ON COLUMN {changes}.cleared_at IS 'The first tick at which it held no longer, in UTC; null while it holds.';
COMMENT ON COLUMN {changes}.merged_into IS 'The alarm that has this one''s time now, where later rows have closed the gap between both.';
COMMENT ON COLUMN {changes}.is_newest IS 'No later change has taken its place.';
COMMENT ON COLUMN {changes}.found IS 'online: by a batch of the query; repair: by a repair.';
COMMENT ON COLUMN {changes}.batch IS 'The batch of the query, or the number of the repair.';
COMMENT ON COLUMN {changes}.raised_us IS 'raised_at in microseconds.';
COMMENT ON COLUMN {changes}.cleared_us IS 'cleared_at in microseconds.';

CREATE VIEW {alarms} AS
    SELECT alarm, {names}state, raised_at, cleared_at, change AS changes, merged_into, {final} AS final, raised_us, cleared_us
    FROM {changes} WHERE is_newest;
COMMENT ON COLUMN {alarms}.alarm IS 'The alarm: stays the same while its times change.';
COMMENT ON COLUMN {alarms}.state IS 'raised: HAVING holds; cleared: it held from raised_at until cleared_at; withdrawn: later rows show it never did.';
COMMENT ON COLUMN {alarms}.raised_at IS 'The first tick at which HAVING held, in UTC.';
COMMENT ON COLUMN {alarms}.cleared_at IS 'The first tick at which it held no longer, in UTC; null while it holds.';
COMMENT ON COLUMN {alarms}.changes IS 'How often its state or times have changed since it was raised; see alarm_changes.';
COMMENT ON COLUMN {alarms}.merged_into IS 'The alarm that has this one''s time now, where later rows have closed the gap between both.';
COMMENT ON COLUMN {alarms}.final IS 'Rows later than the streams'' `latest` apart, none to come can change it, and none waits for the repair.';
COMMENT ON COLUMN {alarms}.raised_us IS 'raised_at in microseconds.';
COMMENT ON COLUMN {alarms}.cleared_us IS 'cleared_at in microseconds.';
