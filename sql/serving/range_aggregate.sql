-- Sum, count, avg, min and max of a measure over [range_start, range_end), one row per aggregate and key.
--
-- Purpose:    all aggregates at once; each row is what range_<aggregate> answers.
-- Parameters: stream_name, measure_name, range_start, range_end, keys, by: see range_nodes;
--             aggregates := ['sum', 'avg'] for some of them
-- Usage:      FROM range_aggregate('telemetry', 'temp', '2020-07-13', '2020-07-14', aggregates := ['min', 'max']);

CREATE MACRO range_aggregate(
    stream_name, measure_name, range_start, range_end, keys := MAP {}, "by" := [],
    aggregates := ['sum', 'count', 'avg', 'min', 'max']
) AS TABLE
    SELECT * FROM (
        SELECT 'sum' AS aggregate, *
        FROM range_sum(stream_name, measure_name, range_start, range_end, keys := keys, "by" := "by")
        UNION ALL
        SELECT 'count', *
        FROM range_count(stream_name, measure_name, range_start, range_end, keys := keys, "by" := "by")
        UNION ALL
        SELECT 'avg', *
        FROM range_avg(stream_name, measure_name, range_start, range_end, keys := keys, "by" := "by")
        UNION ALL
        SELECT 'min', *
        FROM range_min(stream_name, measure_name, range_start, range_end, keys := keys, "by" := "by")
        UNION ALL
        SELECT 'max', *
        FROM range_max(stream_name, measure_name, range_start, range_end, keys := keys, "by" := "by")
    )
    WHERE list_contains(aggregates, aggregate);
