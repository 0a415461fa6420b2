-- The published rows of one registered selection.
--
-- Purpose:    one table selection_<query> per query: its own columns, and which row of the stream each is.
-- Parameters: {table}, {columns}: the publisher fills in the query's table and its own columns.
-- Usage:      SELECT count(*) FROM selection_probes WHERE event_at >= TIMESTAMP '2026-01-01';
--
-- Sorted by event time: a WHERE on event_us or event_at reads only that time.

CREATE TABLE {table} (
    event_at TIMESTAMP, {columns}event_us BIGINT, row_id BIGINT, batch BIGINT
);
COMMENT ON COLUMN {table}.event_at IS 'event_us as a time in UTC.';
COMMENT ON COLUMN {table}.event_us IS 'Event time of the row.';
COMMENT ON COLUMN {table}.row_id IS 'The row: hash of its file, line and item.';
COMMENT ON COLUMN {table}.batch IS 'The batch of the query that selected it.';
