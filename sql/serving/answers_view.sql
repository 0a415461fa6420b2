-- What one registered join-aggregate answers now: a view over the table of answers.sql.
--
-- Purpose:    the newest answers that hold.
-- Parameters: {table}, {answers}, {names}, {final}: the publisher fills in table and view, the query's own columns, what is final.
-- Usage:      see answers.sql.

CREATE VIEW {answers} AS
    SELECT tick_at, {names}revision, {final} AS final, tick_us FROM {table} WHERE is_newest AND holds;
COMMENT ON COLUMN {answers}.tick_at IS 'tick_us as a time in UTC.';
COMMENT ON COLUMN {answers}.revision IS '0: as first answered; else how often late rows or retractions have changed it.';
COMMENT ON COLUMN {answers}.final IS 'Rows later than the streams'' `latest` apart, none to come can change it, and none waits for the repair.';
COMMENT ON COLUMN {answers}.tick_us IS 'The tick: the answer is of the rows that are in their windows then.';
