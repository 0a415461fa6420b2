-- Scalar macros that read times and align them.
--
-- Purpose:    every range macro takes its ends through timestamp_us, as text: so text, DATE, TIMESTAMP and TIMESTAMPTZ
--             mean the same instant everywhere: without an offset UTC, with an offset or Z what it says.
-- Parameters: time_text  text such as '2020-07-13', '2020-07-13T06:00', '2020-07-13T06:00:00+02:00'
--             at_us      microseconds since the epoch, UTC; negative before 1970
--             width_us   width of a node in microseconds
-- Usage:      SELECT timestamp_us('2020-07-13T06:00Z'), floor_to(timestamp_us('2020-07-13T06:00:30'), 60000000);

CREATE MACRO floor_to(at_us, width_us) AS at_us - ((at_us % width_us) + width_us) % width_us;

-- DuckDB drops an offset in a cast to TIMESTAMP and wants seconds before a Z.
CREATE MACRO timestamp_us(time_text) AS
    CASE
        WHEN regexp_matches(time_text, '\d:\d\d(:\d\d(\.\d+)?)? ?(Z|z|[+-]\d\d(:?\d\d)?)$')
        THEN epoch_us(CAST(regexp_replace(
            regexp_replace(time_text, '([T ]\d\d:\d\d)( ?[Zz+-])', '\1:00\2'),
            '([+-]\d\d)(\d\d)$', '\1:\2'
        ) AS TIMESTAMPTZ))
        ELSE epoch_us(CAST(time_text AS TIMESTAMP))
    END;
