-- Views for reading what the range macros read, with names and times instead of slots and microseconds.
--
-- Purpose:    rollups: every node of every measure; publications: this version and its age.
-- Parameters: none.
-- Usage:      SELECT * FROM rollups WHERE stream = 'telemetry' AND measure = 'temp' AND level = 2 LIMIT 10;

CREATE VIEW rollups AS
    SELECT
        streams.stream, measures.measure, levels.level, series."grouping", series.key,
        make_timestamp(nodes.start_us) AS starts_at,
        make_timestamp(nodes.start_us + levels.width_us) AS ends_at,
        nodes.n,
        nodes.total / answerable.divisor AS total,
        nodes.lowest / answerable.divisor AS lowest,
        nodes.highest / answerable.divisor AS highest,
        make_timestamp(nodes.first_us) AS first_at,
        make_timestamp(nodes.last_us) AS last_at
    FROM streams
    JOIN measures ON measures.stream = streams.stream
    JOIN answerable ON answerable.stream = streams.stream AND answerable.measure = measures.measure
    JOIN levels ON levels.stream = streams.stream
    JOIN series ON series.stream_id = streams.stream_id
    JOIN nodes ON nodes.slot
        = measures.slot_base + (levels.level - 1) * streams.series_count + series.series_rank;
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
