-- raw/<stream>: one row is one accepted reading of the stream, as declared, kept once.
-- The stream's own columns stand after the times, in the order of tidemark.toml.
CREATE TABLE IF NOT EXISTS delta.`{path}` (
    event_us BIGINT COMMENT 'when it happened: microseconds since the epoch, UTC',
    arrival_us BIGINT COMMENT 'when it was received, microseconds since the epoch, UTC; null where the source does not tell',
    {columns}
    source_file STRING COMMENT 'the file it came in, by its name below the landing folder, or kafka:<topic>/<partition>',
    source_line BIGINT COMMENT 'the line in that file, from 1, or the offset',
    source_item INT COMMENT 'its place in the exploded list of that line, 0 where a line is one row',
    record_hash BINARY COMMENT '128 bits of BLAKE2b of the record, for streams that identify a record by its bytes; null elsewhere',
    batch BIGINT COMMENT 'the ingest batch that accepted it'
) USING DELTA
COMMENT 'accepted rows'
TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'event_us,arrival_us,batch')
