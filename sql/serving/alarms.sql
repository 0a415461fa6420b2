-- The published alarms of one registered join-aggregate: for how long HAVING held for a group.
--
-- Purpose:    alarm_changes_<query>: each change of each alarm; alarms_<query>: how each stands, its newest change.
-- Parameters: {table}, {columns}: the publisher fills in alarm_changes_<query>, and its groups; see alarms_view.sql.
-- Usage:      SELECT raised_at, cleared_at, location FROM alarms_busy WHERE state <> 'withdrawn' ORDER BY raised_at DESC;
--
-- Sorted by the time at which they were raised.

CREATE TABLE {table} (
    alarm VARCHAR, {columns}change INTEGER, state VARCHAR, raised_at TIMESTAMP, cleared_at TIMESTAMP, merged_into VARCHAR,
    is_newest BOOLEAN, found VARCHAR, batch BIGINT, raised_us BIGINT, cleared_us BIGINT
);
COMMENT ON COLUMN {table}.alarm IS 'The alarm: stays the same while its times change.';
COMMENT ON COLUMN {table}.change IS '0: it was raised; each later one changed its state or times.';
COMMENT ON COLUMN {table}.state IS 'raised: HAVING holds; cleared: it held from raised_at until cleared_at; withdrawn: later rows show it never did.';
COMMENT ON COLUMN {table}.raised_at IS 'The first tick at which HAVING held, in UTC.';
COMMENT ON COLUMN {table}.cleared_at IS 'The first tick at which it held no longer, in UTC; null while it holds.';
COMMENT ON COLUMN {table}.merged_into IS 'The alarm that has this one''s time now, where later rows have closed the gap between both.';
COMMENT ON COLUMN {table}.is_newest IS 'No later change has taken its place.';
COMMENT ON COLUMN {table}.found IS 'online: by a batch of the query; repair: by a repair.';
COMMENT ON COLUMN {table}.batch IS 'The batch of the query, or the number of the repair.';
COMMENT ON COLUMN {table}.raised_us IS 'raised_at in microseconds.';
COMMENT ON COLUMN {table}.cleared_us IS 'cleared_at in microseconds.';
