-- quarantine/<stream>: one row is one rejected record (or one item of its exploded list), with its bytes.
CREATE TABLE IF NOT EXISTS delta.`{path}` (
    batch BIGINT COMMENT 'the ingest batch that rejected it',
    reason STRING COMMENT 'a short code: malformed, bad_utf8, no_event_time, bad_event_time, out_of_bounds, clock, bad_value, conflict, tombstone, ...',
    detail STRING COMMENT 'what was found and what was expected',
    record BINARY COMMENT 'the record as it came; null for a tombstone',
    source_file STRING COMMENT 'the file it came in, by its name below the landing folder, or kafka:<topic>/<partition>',
    source_line BIGINT COMMENT 'the line in that file, from 1; 0 for a file that cannot be read at all; or the offset',
    source_item INT COMMENT 'its place in the exploded list of that line',
    message STRUCT<key: BINARY, timestamp_ms: BIGINT, headers: ARRAY<STRUCT<key: STRING, value: BINARY>>> COMMENT 'what a message told beside its value; null for lines of files'
) USING DELTA
COMMENT 'rejected records'
