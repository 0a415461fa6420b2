-- The ledger of every stream, as published.
--
-- Purpose:    what came in and what became of it, readable without Spark.
-- Parameters: {table}: the rows of one stream are a table; the view ledger has those of all.
-- Usage:      SELECT stream, sum(accepted), sum(late) FROM ledger GROUP BY stream;
--
-- received + requeued = accepted + quarantined + duplicates holds in every row.

CREATE TABLE {table} (
    stream VARCHAR, batch BIGINT, kind VARCHAR, files INTEGER, records BIGINT, received BIGINT, requeued BIGINT,
    accepted BIGINT, quarantined BIGINT, duplicates BIGINT, revised BIGINT, filtered BIGINT, reasons MAP(VARCHAR, BIGINT), missing MAP(VARCHAR, BIGINT),
    min_event_us BIGINT, max_event_us BIGINT, newest_us BIGINT, late BIGINT, lateness BIGINT[], max_lateness_us BIGINT,
    schema_changes VARCHAR[], repeated_files VARCHAR[], lost MAP(VARCHAR, BIGINT), committed_at TIMESTAMPTZ
);
COMMENT ON TABLE {table} IS 'One row per ingest batch of a stream.';
COMMENT ON COLUMN {table}.stream IS 'Stream.';
COMMENT ON COLUMN {table}.batch IS 'Number of the ingest batch.';
COMMENT ON COLUMN {table}.kind IS 'files; kafka; requeue: records taken back out of quarantine; lost: messages given up; split: cut into batches behind it after it failed; set_aside: a file or message that failed alone, not read.';
COMMENT ON COLUMN {table}.files IS 'Files read.';
COMMENT ON COLUMN {table}.records IS 'Lines or messages read.';
COMMENT ON COLUMN {table}.received IS 'Rows that came in, items of exploded lists counted one by one.';
COMMENT ON COLUMN {table}.requeued IS 'Rows taken back out of quarantine.';
COMMENT ON COLUMN {table}.accepted IS 'Rows now in raw.';
COMMENT ON COLUMN {table}.quarantined IS 'Rows set aside.';
COMMENT ON COLUMN {table}.duplicates IS 'Rows that were there already.';
COMMENT ON COLUMN {table}.revised IS 'Accepted rows, of this batch or an earlier one, that newer ones of this batch revised.';
COMMENT ON COLUMN {table}.filtered IS 'Rows that source.where leaves out, in no other count.';
COMMENT ON COLUMN {table}.reasons IS 'Quarantined rows per reason.';
COMMENT ON COLUMN {table}.missing IS 'Accepted rows without a usable value, per declared column.';
COMMENT ON COLUMN {table}.min_event_us IS 'Oldest event time accepted in the batch.';
COMMENT ON COLUMN {table}.max_event_us IS 'Newest event time accepted in the batch.';
COMMENT ON COLUMN {table}.newest_us IS 'Newest event time accepted up to and including the batch.';
COMMENT ON COLUMN {table}.late IS 'Rows behind the newest event time when they came.';
COMMENT ON COLUMN {table}.lateness IS 'Late rows per bin; bin i from 0 holds [2^i, 2^(i+1)) milliseconds.';
COMMENT ON COLUMN {table}.max_lateness_us IS 'Lateness of the latest row, microseconds.';
COMMENT ON COLUMN {table}.repeated_files IS 'Files that were not read, as their content was read under another name, one text each.';
COMMENT ON COLUMN {table}.schema_changes IS 'Columns that its files gained, lost or retyped, and names that were changed, one text each.';
COMMENT ON COLUMN {table}.lost IS 'Messages that were deleted before they were read, per topic/partition; at most so many.';
COMMENT ON COLUMN {table}.committed_at IS 'When the batch was committed.';
