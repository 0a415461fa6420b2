-- An aggregate over evenly spaced buckets of [range_start, range_end), each with its interval: what a chart shows.
--
-- Purpose:    at most `points` rows per key in one pass; each row is what range_<aggregate> answers over its bucket.
-- Parameters: stream_name, measure_name, range_start, range_end, keys, by: see range_nodes
--             points      how many buckets; fewer where the range has fewer microseconds
--             aggregate   sum, count, avg, min or max
-- Usage:      FROM range_series('telemetry', 'temp', '2020-07-13', '2020-07-14', 96, aggregate := 'max');
--
-- Answer: bucket (from 1), starts_at, ends_at, then the columns of range_sum.

CREATE MACRO even_edges(a_us, b_us, points) AS list_transform(
    range(0, least(points, b_us - a_us) + 1),
    lambda i: a_us + CAST(CAST(i AS HUGEINT) * (b_us - a_us) // least(points, b_us - a_us) AS BIGINT)
);

CREATE MACRO bucket_aggregate(stream_name, measure_name, edges, wanted_aggregate, keys := MAP {}, "by" := []) AS TABLE
    SELECT * FROM bucket_sum(stream_name, measure_name, edges, keys := keys, "by" := "by")
    WHERE wanted_aggregate = 'sum'
    UNION ALL
    SELECT * FROM bucket_count(stream_name, measure_name, edges, keys := keys, "by" := "by")
    WHERE wanted_aggregate = 'count'
    UNION ALL
    SELECT * FROM bucket_avg(stream_name, measure_name, edges, keys := keys, "by" := "by")
    WHERE wanted_aggregate = 'avg'
    UNION ALL
    SELECT * FROM bucket_min(stream_name, measure_name, edges, keys := keys, "by" := "by")
    WHERE wanted_aggregate = 'min'
    UNION ALL
    SELECT * FROM bucket_max(stream_name, measure_name, edges, keys := keys, "by" := "by")
    WHERE CASE
        WHEN wanted_aggregate = 'max' THEN true
        WHEN wanted_aggregate IN ('sum', 'count', 'avg', 'min') THEN false
        ELSE error(concat('aggregate must be sum, count, avg, min or max, found ',
            wanted_aggregate, '; a counter has increase_series'))
    END;

CREATE MACRO series_edges(range_start, range_end, points) AS even_edges(
    timestamp_us(CAST(range_start AS VARCHAR)), timestamp_us(CAST(range_end AS VARCHAR)), CASE
        WHEN points BETWEEN 1 AND 10000 THEN points
        ELSE error(concat('points must be from 1 to 10000, found ', points)) END
);

CREATE MACRO range_series(
    stream_name, measure_name, range_start, range_end, points, keys := MAP {}, "by" := [], aggregate := 'avg'
) AS TABLE
    SELECT bucket, make_timestamp(from_us) AS starts_at, make_timestamp(to_us) AS ends_at, * EXCLUDE (bucket, from_us, to_us)
    FROM bucket_aggregate(
        stream_name, measure_name, series_edges(range_start, range_end, points), aggregate, keys := keys, "by" := "by"
    )
    ORDER BY bucket, key;

-- The increase of a counter inside each bucket; the step from one bucket's last reading to the next one's first is in none.
CREATE MACRO increase_series(
    stream_name, measure_name, range_start, range_end, points, keys := MAP {}, "by" := []
) AS TABLE
    SELECT bucket, make_timestamp(from_us) AS starts_at, make_timestamp(to_us) AS ends_at, * EXCLUDE (bucket, from_us, to_us)
    FROM bucket_increase(
        stream_name, measure_name, series_edges(range_start, range_end, points), keys := keys, "by" := "by"
    )
    ORDER BY bucket, key;
