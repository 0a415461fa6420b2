-- The published pairs of one registered query.
--
-- Purpose:    one table pairs_<query> per query: its own columns, and how and when each pair was found.
-- Parameters: {table}, {columns}: the publisher fills in the query's table and its own columns.
-- Usage:      SELECT found, count(*), avg(wait_us) / 1e6 AS wait_s FROM pairs_answers GROUP BY found;
--
-- Sorted by event time: a WHERE on event_us or event_at reads only that time.

CREATE TABLE {table} (
    event_at TIMESTAMP, {columns}found VARCHAR, wait_us BIGINT, event_us BIGINT, left_us BIGINT, right_us BIGINT,
    left_row BIGINT, right_row BIGINT, batch BIGINT
);
COMMENT ON COLUMN {table}.event_at IS 'event_us as a time in UTC.';
COMMENT ON COLUMN {table}.found IS 'online: the moment the later row was taken in; repair: afterwards.';
COMMENT ON COLUMN {table}.wait_us IS 'Stream time from the arrival of the later row until the pair was found.';
COMMENT ON COLUMN {table}.event_us IS 'Event time of the newer row, whose periods the pair belongs to.';
COMMENT ON COLUMN {table}.left_us IS 'Event time of the left row.';
COMMENT ON COLUMN {table}.right_us IS 'Event time of the right row.';
COMMENT ON COLUMN {table}.left_row IS 'The left row: hash of its file, line and item.';
COMMENT ON COLUMN {table}.right_row IS 'The right row, alike.';
COMMENT ON COLUMN {table}.batch IS 'The batch of the query that found it, or the number of the repair.';
