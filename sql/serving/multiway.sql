-- The published results of one registered query of three streams or more.
--
-- Purpose:    one table multiway_<query> per query: its own columns, the rows that are joined, and how each was found.
-- Parameters: {table}, {columns}: the publisher fills in the query's table and its own columns.
-- Usage:      SELECT found, count(*) FROM multiway_alerts GROUP BY found;
--
-- Sorted by event time: a WHERE on event_us or event_at reads only that time.

CREATE TABLE {table} (
    event_at TIMESTAMP, {columns}found VARCHAR, event_us BIGINT, times_us BIGINT[], row_ids BIGINT[], batch BIGINT
);
COMMENT ON COLUMN {table}.event_at IS 'event_us as a time in UTC.';
COMMENT ON COLUMN {table}.found IS 'online: by a batch of the query; repair: afterwards.';
COMMENT ON COLUMN {table}.event_us IS 'Event time of the newest row.';
COMMENT ON COLUMN {table}.times_us IS 'Event time of the row of each stream, in the order of the query.';
COMMENT ON COLUMN {table}.row_ids IS 'The row of each stream: hash of its file, line and item.';
COMMENT ON COLUMN {table}.batch IS 'The batch of the query that found it, or the number of the repair.';
