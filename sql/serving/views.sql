-- Views for reading what the range macros read, with names and times instead of slots and microseconds.
--
-- Purpose:    rollups: every node of every measure, lateness: how late rows came.
-- Parameters: none.
-- Usage:      SELECT * FROM rollups WHERE stream = 'telemetry' AND measure = 'temp' AND level = 2 LIMIT 10;

CREATE VIEW rollups AS
    SELECT
        ladder.stream, ladder.measure, ladder.level, series."grouping", series.key,
        make_timestamp(nodes.start_us) AS starts_at,
        make_timestamp(nodes.start_us + ladder.width_us) AS ends_at,
        nodes.n,
        nodes.total / ladder.divisor AS total,
        nodes.lowest / ladder.divisor AS lowest,
        nodes.highest / ladder.divisor AS highest,
        make_timestamp(nodes.first_us) AS first_at,
        make_timestamp(nodes.last_us) AS last_at
    FROM ladder
    JOIN streams ON streams.stream = ladder.stream
    JOIN series ON series.stream_id = streams.stream_id
    JOIN nodes ON nodes.slot = ladder.first_slot + series.series_rank;
COMMENT ON VIEW rollups IS 'One row per node and measure, with names, times in UTC and values in the measure''s unit.';

CREATE VIEW lateness AS
    SELECT
        stream,
        sum(accepted) AS accepted,
        sum(late) AS late,
        sum(late) / nullif(sum(accepted) + sum(duplicates), 0) AS late_share,
        max(max_lateness_us) AS max_lateness_us
    FROM ledger GROUP BY stream;
COMMENT ON VIEW lateness IS 'One row per stream: how many rows came late, and how late the latest was.';
