-- ledger/<stream>: one row is one finished ingest batch. received + requeued = accepted + quarantined + duplicates.
CREATE TABLE IF NOT EXISTS delta.`{path}` (
    batch BIGINT COMMENT 'number of the batch: 1, 2, 3, ...',
    kind STRING COMMENT 'files: new files; kafka: new messages; requeue: quarantined records put through again; lost: messages given up; split: cut into batches behind it after it failed; set_aside: a file or message that failed alone, not read',
    files INT COMMENT 'files read',
    records BIGINT COMMENT 'lines that hold a record',
    received BIGINT COMMENT 'rows: records, or the items of their exploded lists',
    requeued BIGINT COMMENT 'rows taken back out of quarantine',
    accepted BIGINT COMMENT 'rows now in raw',
    quarantined BIGINT COMMENT 'rows now in quarantine',
    duplicates BIGINT COMMENT 'rows that repeat an accepted one, kept once',
    revised BIGINT COMMENT 'accepted rows, of this batch or an earlier one, that a row of this batch is a newer value of: they leave raw',
    filtered BIGINT COMMENT 'rows that source.where leaves out, which are none of the stream and in no other count',
    reasons MAP<STRING, BIGINT> COMMENT 'quarantined rows per reason',
    missing MAP<STRING, BIGINT> COMMENT 'accepted rows without a usable value, per declared column',
    min_event_us BIGINT COMMENT 'earliest event time accepted',
    max_event_us BIGINT COMMENT 'latest event time accepted',
    newest_us BIGINT COMMENT 'latest event time accepted up to and including this batch',
    reached_us BIGINT COMMENT 'event time that this batch reached, or the last one before it that accepted rows: from the median of its rows on, without a jump',
    confirmed_us BIGINT COMMENT 'event time that batches up to and including this one have confirmed: retention and levels follow it',
    late BIGINT COMMENT 'accepted rows behind the latest event time that earlier batches had reached or an earlier row of their file had; with arrival times, that rows had which arrived before',
    lateness ARRAY<BIGINT> COMMENT 'late rows per power of two of milliseconds: bin i holds 2^i to 2^(i+1) ms, bin 0 also less',
    max_lateness_us BIGINT COMMENT 'the latest of them, microseconds',
    schema_changes ARRAY<STRING> COMMENT 'columns that its files gained, lost or retyped, against the files before, and names that were changed',
    repeated_files ARRAY<STRING> COMMENT 'files that were not read, as their content was read under another name',
    lost MAP<STRING, BIGINT> COMMENT 'of kind lost: offsets that the broker no longer had, per topic/partition; at most so many messages',
    committed_at TIMESTAMP COMMENT 'when the batch was finished'
) USING DELTA
COMMENT 'what came in, and where it went'
