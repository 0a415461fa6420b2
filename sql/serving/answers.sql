-- The published answers of one registered join-aggregate.
--
-- Purpose:    revisions_<query>: whatever was answered at each tick and group, also where HAVING lets it not through;
--             answers_<query>: of these the newest that HAVING lets through: what the query answers now.
-- Parameters: {table}, {columns}: the publisher fills in revisions_<query>, and the query's own columns; see answers_view.sql.
-- Usage:      SELECT tick_at, location, n FROM answers_busy WHERE final ORDER BY n DESC LIMIT 10;
--
-- A tick and group without a row has no join result. Sorted by tick: a WHERE on tick_us or tick_at reads only that time.

CREATE TABLE {table} (
    tick_at TIMESTAMP, {columns}holds BOOLEAN, revision INTEGER, is_newest BOOLEAN, found VARCHAR, batch BIGINT, tick_us BIGINT
);
COMMENT ON COLUMN {table}.tick_at IS 'tick_us as a time in UTC.';
COMMENT ON COLUMN {table}.holds IS 'HAVING lets it through.';
COMMENT ON COLUMN {table}.revision IS '0: the first answer; each later one counts more rows.';
COMMENT ON COLUMN {table}.is_newest IS 'No later revision has taken its place.';
COMMENT ON COLUMN {table}.found IS 'online: by a batch of the query; repair: by a repair.';
COMMENT ON COLUMN {table}.batch IS 'The batch of the query, or the number of the repair.';
COMMENT ON COLUMN {table}.tick_us IS 'The tick: the answer is of the rows that are in their windows then.';
