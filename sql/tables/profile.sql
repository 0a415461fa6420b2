-- profile/<stream>: one row is what some rows of a batch add to one column of one day of event time, in UTC, or, where the
-- column is *, to the day itself. Rows of the same day and column are added up when they are read, and folded by maintain.
CREATE TABLE IF NOT EXISTS delta.`{path}` (
    batch BIGINT COMMENT 'ingest batch that judged the rows; of rows that were folded, the last one',
    day_us BIGINT COMMENT 'start of the day; -1 for rejected records without a usable event time',
    column STRING COMMENT 'declared column, or * for the day itself',
    rows BIGINT COMMENT 'accepted rows',
    missing BIGINT COMMENT 'those without a usable value of the column',
    mean DOUBLE COMMENT 'mean of the values as doubles; 0 where there is none',
    squares DOUBLE COMMENT 'sum of squared distances from the mean',
    least DOUBLE COMMENT 'the least value; null for texts',
    greatest DOUBLE COMMENT 'the greatest value; null for texts',
    shift BIGINT COMMENT 'how many last bits of a value as an ordered whole number its bin lacks: it is off by at most 2^(shift - 53) of it',
    bins ARRAY<BIGINT> COMMENT 'bins of values, without these bits, in any order; of * minutes of the day',
    weights ARRAY<BIGINT> COMMENT 'rows in each bin',
    hashes ARRAY<BIGINT> COMMENT 'smallest hashes of 40 bits of distinct values, at most 512, in any order',
    frequent MAP<STRING, BIGINT> COMMENT 'most frequent values of a key, at most 64, and in how many rows they are at least',
    frequent_error BIGINT COMMENT 'in how many rows more at most',
    late BIGINT COMMENT 'of *: accepted rows that were late, as in the ledger',
    rejected MAP<STRING, BIGINT> COMMENT 'of *: rejected records per reason, of batches that read them first'
) USING DELTA
COMMENT 'what the values of each day look like'
TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'batch,day_us')
