-- The published answers of one registered join-aggregate.
--
-- Purpose:    revisions_<query>: whatever was answered at each tick and group, also where HAVING lets it not through;
--             answers_<query>: of these the newest that HAVING lets through: what the query answers now.
-- Parameters: {revisions}, {answers}, {columns}, {names}, {final}: the publisher fills in the query's tables, its own
--             columns, their names, and which ticks are final.
-- Usage:      SELECT tick_at, location, n FROM answers_busy WHERE final ORDER BY n DESC LIMIT 10;
--
-- A tick and group without a row has no join result. Sorted by tick: a WHERE on tick_us or tick_at reads only that time.

CREATE TABLE {revisions} (
    tick_at TIMESTAMP, {columns}holds BOOLEAN, revision INTEGER, is_newest BOOLEAN, found VARCHAR, batch BIGINT, tick_us BIGINT
);
COMMENT ON COLUMN {revisions}.tick_at IS 'tick_us as a time in UTC.';
COMMENT ON COLUMN {revisions}.holds IS 'HAVING lets it through.';
COMMENT ON COLUMN {revisions}.revision IS '0: the first answer; each later one counts more rows.';
COMMENT ON COLUMN {revisions}.is_newest IS 'No later revision has taken its place.';
COMMENT ON COLUMN {revisions}.found IS 'online: by a batch of the query; repair: by a repair.';
COMMENT ON COLUMN {revisions}.batch IS 'The batch of the query, or the number of the repair.';
COMMENT ON COLUMN {revisions}.tick_us IS 'The tick: the answer is of the rows that are in their windows then.';

CREATE VIEW {answers} AS
    SELECT tick_at, {names}revision, {final} AS final, tick_us FROM {revisions} WHERE is_newest AND holds;
COMMENT ON COLUMN {answers}.tick_at IS 'tick_us as a time in UTC.';
COMMENT ON COLUMN {answers}.revision IS '0: as first answered; else how often late rows have changed it.';
COMMENT ON COLUMN {answers}.final IS 'Rows later than the streams'' `latest` apart, none to come can change it, and none waits for the repair.';
COMMENT ON COLUMN {answers}.tick_us IS 'The tick: the answer is of the rows that are in their windows then.';
