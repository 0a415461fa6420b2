-- remembered/<stream>: one row is one identity that was accepted and whose raw row was dropped for its age.
-- A repeat of it is told by these digests, for as long as the stream's duplicates_within asks.
CREATE TABLE IF NOT EXISTS delta.`{path}` (
    event_us BIGINT COMMENT 'event time of the row',
    batch BIGINT COMMENT 'ingest batch that accepted it',
    identity BIGINT COMMENT 'hash of its identity, as in the index of identities',
    digest_high BIGINT COMMENT 'half of a digest of its identity and of how that is declared',
    digest_low BIGINT COMMENT 'the other half',
    payload BIGINT COMMENT 'digest of its content: the values of its columns, arrival apart'
) USING DELTA
COMMENT 'identities of accepted rows that raw no longer has'
TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'event_us,batch')
