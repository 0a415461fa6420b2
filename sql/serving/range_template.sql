-- The four macros of an aggregate over [range_start, range_end), with the interval that must hold its value.
--
-- Purpose:    <aggregate>_inside reads the nodes of an answer, <aggregate>_of folds them; bucket_<aggregate> asks several
--             ranges that touch each other, range_<aggregate> one. What is the same in all of them is here, once.
-- Parameters: filled in from range_<aggregate>.sql, whose parts begin with a line -- [name]:
--             folds    what is folded of the nodes inside, beside how many they and their rows are; may be empty
--             value, low, high, exact   the answer; exact only where nothing of the range is forgotten
--             units, terms, digits, text   the result to its last digit, see exact_values.sql
--             sure_low, sure_high   the sides of its interval where rows inside may repeat others (doubt, see below)
--             least_side, most_side   the sides where rows that are rejected may be inside (absent, see below)
--             nodes, inside, steps, by_meter, grouped, beside   where an aggregate has none of its own, those below
--             stream_name, measure_name, range_start, range_end, edges, keys, by: see range_nodes
-- Usage:      FROM range_sum('telemetry', 'temp', '2020-07-13T06:00', '2020-07-13T09:30', keys := {device: 'a'});
--
-- Rows that came when the identities of their time were no longer known may repeat others. They are in all nodes, so
-- the truth is what is left when some of them are taken away. `doubt` bounds those of ranges of time that the question
-- touches, whatever their keys: how many (n), what their values below and above zero sum to, their ends. The sides are
-- moved to hold both, such an answer is neither exact nor final, and `unchecked` says how many rows it is about.
--
-- Rejected rows whose local time comes twice are in no node, and the truth may have any of them. `absent` bounds them as
-- `doubt` does. The sides, those for `doubt` if there is any, are moved once more, and `ambiguous` says how many they are.
--
-- Doubles are added in one order, so that a range has one answer, however many are asked for at once.
-- Words in braces that no part has are numbers of lakehouse/algorithms/rollup/rounding.py.
--
-- What is known to the last digit, `units` by `terms`, is answered by the nearest double (exact_values.sql), whatever
-- value, low and high say. Of whole numbers and decimals nothing else is exact.
--
-- <aggregate>_folded answers where no row is in doubt, <aggregate>_of everywhere. Setting up the steps for doubt takes
-- a quarter of the time of a question, so `ask` leaves them out where the version has none in the range. least_cut,
-- which range_<aggregate> leaves out, is how many rows the least cut node has.
--
-- Answer: key, value, low, high, exact, exact_value (all digits as text; null where not exact, and of doubles and averages), rows (about so many), rows_low, rows_high (null where the last level has forgotten
-- some), nodes_read, finest_granularity_us, as_of_version, grouping, final (rows later than the stream's `latest` apart, no row can still change it), unchecked, ambiguous.

-- [folds]

-- [nodes]
query_table
-- [inside]
refined_nodes(asked, reads)
-- [by_meter]
false
-- [grouped]
grouped AS (
    SELECT
        bucket, key_json,
        count(*) AS nodes_read, min(width_us) AS finest_granularity_us,
        CAST(sum(at_least) AS BIGINT) AS rows_low, CAST(sum(at_most) AS BIGINT) AS rows_high,
        sum(least(greatest(n * share, at_least), at_most)) AS rows_spread,
        min(CASE WHEN at_least < n AND at_most > 0 THEN n END) AS least_cut,
        {folds}
    FROM (FROM {nodes}(inside) ORDER BY slot, start_us)
    GROUP BY bucket, key_json
)
-- [steps]
ended AS (FROM joined)
-- [units]
NULL::HUGEINT
-- [terms]
1
-- [digits]
digits_of(divisor)
-- [text]
decimal_text(units, digits)
-- [answer]
ifnull(nearest, {value}) AS value,
CASE WHEN nearest IS NULL THEN {low} WHEN is_held THEN nearest ELSE nextafter(nearest, '-infinity'::DOUBLE) END AS low,
CASE WHEN nearest IS NULL THEN {high} WHEN is_held THEN nearest ELSE nextafter(nearest, 'infinity'::DOUBLE) END AS high,
({exact}) AND NOT is_forgotten AND (nearest IS NOT NULL OR NOT is_exact OR ifnull(rows_high, 0) = 0) AS exact,
{text} AS exact_value,
CAST(round(ifnull(rows_spread, 0)) AS BIGINT) AS rows, ifnull(rows_low, 0) AS rows_low,
CASE WHEN NOT is_forgotten THEN ifnull(rows_high, 0) END AS rows_high, ifnull(nodes_read, 0) AS nodes_read,
finest_granularity_us
-- [beside]
NULL AS least_end, NULL AS most_end
-- [macros]
CREATE MACRO {aggregate}_inside(asked, reads) AS TABLE FROM {inside};

CREATE MACRO {aggregate}_folded(asked, inside) AS TABLE
    WITH {grouped}, joined AS (
        SELECT * FROM query_table(asked) AS asked LEFT JOIN grouped USING (bucket)
        WHERE level = 1 AND (rows_high > 0 OR NOT is_by_key)
    ), {steps}, counted AS (
        SELECT *, CASE WHEN NOT is_forgotten THEN {units} END AS units, {digits} AS digits FROM ended
    ), rounded AS (
        SELECT *, is_held(units, {terms}, digits, nearest) AS is_held
        FROM (SELECT *, nearest_double(units, {terms}, digits) AS nearest FROM counted)
    )
    SELECT
        CAST(CAST(ifnull(key_json, '{}') AS JSON) AS MAP(VARCHAR, VARCHAR)) AS key,
        {answer},
        version AS as_of_version, CAST(grouping_text AS VARCHAR[]) AS grouping, is_final AS final,
        0::BIGINT AS unchecked, 0::BIGINT AS ambiguous, bucket, a_us AS from_us, b_us AS to_us, least_cut, is_forgotten,
        asked_stream, asked_measure, {beside}
    FROM rounded;

CREATE MACRO {aggregate}_of(asked, inside) AS TABLE
    SELECT
        key, value,
        CASE WHEN absent IS NULL THEN low ELSE {least_side} END AS low,
        CASE WHEN absent IS NULL THEN high ELSE {most_side} END AS high,
        exact AND doubt IS NULL AND absent IS NULL AS exact,
        CASE WHEN doubt IS NULL AND absent IS NULL THEN exact_value END AS exact_value, rows, rows_low,
        rows_high + ifnull(absent.n, 0) AS rows_high,
        nodes_read, finest_granularity_us, as_of_version, grouping, final AND doubt IS NULL AND absent IS NULL AS final,
        least(ifnull(doubt.n, 0), ifnull(rows_high, doubt.n)) AS unchecked, ifnull(absent.n, 0) AS ambiguous,
        bucket, from_us, to_us, least_cut
    FROM (
        SELECT
            key, value, exact, exact_value, rows, rows_high, nodes_read, finest_granularity_us, as_of_version, grouping, final,
            bucket, from_us, to_us, least_cut, doubt, absent, least_end, most_end,
            CASE WHEN doubt IS NULL THEN low ELSE {sure_low} END AS low,
            CASE WHEN doubt IS NULL THEN high ELSE {sure_high} END AS high,
            greatest(rows_low - ifnull(doubt.n, 0), 0) AS rows_low
        FROM (
            SELECT
                folded.*,
                CASE WHEN rows_high > 0 OR is_forgotten THEN doubt_of(ladder.unchecked, from_us, to_us) END AS doubt,
                doubt_of(ladder.ambiguous, from_us, to_us) AS absent
            FROM {aggregate}_folded(asked, inside) AS folded
            JOIN ladder ON stream = asked_stream AND measure = asked_measure AND level = 1
        )
    );

CREATE MACRO bucket_{aggregate}(stream_name, measure_name, edges, keys := MAP {}, "by" := []) AS TABLE
    WITH asked AS MATERIALIZED (
        FROM bucket_asked(stream_name, measure_name, edges, keys, "by", by_meter := {by_meter})
    ),
    reads AS (FROM reads_of('asked')),
    inside AS (FROM {aggregate}_inside('asked', 'reads'))
    SELECT * EXCLUDE (least_cut) FROM {aggregate}_of('asked', 'inside');

CREATE MACRO range_{aggregate}(stream_name, measure_name, range_start, range_end, keys := MAP {}, "by" := []) AS TABLE
    SELECT * EXCLUDE (bucket, from_us, to_us)
    FROM bucket_{aggregate}(stream_name, measure_name,
        [timestamp_us(CAST(range_start AS VARCHAR)), timestamp_us(CAST(range_end AS VARCHAR))], keys := keys, "by" := "by");
