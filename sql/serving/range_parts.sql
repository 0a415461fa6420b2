-- Of each node that answers a range, the least and the most that its rows inside can sum to.
--
-- Purpose:    what sums and averages share; `is_open` says that some of its rows can be inside and some outside.
--
-- Of a cut node with sum s and values in [m, M], k rows inside sum to at most least(k*M, s - (n-k)*m), which rises to
-- its bend and falls after it; only the whole numbers around the bend matter, and an end of k where m and M have one
-- sign. The lower side mirrors it.
-- Parameters: inside   name of a table of nodes as nodes_inside and refined_nodes make it, see range_nodes
-- Usage:      WITH ..., inside AS (FROM refined_nodes('asked', 'reads')) FROM parts_inside('inside');

CREATE MACRO parts_inside(inside) AS TABLE
    WITH turned AS (
        SELECT
            *,
            at_least < n AND at_most > 0 AS is_open,
            CASE WHEN lowest >= 0 THEN at_most WHEN highest <= 0 THEN at_least
                ELSE least(greatest(floor((total - n * lowest) / (highest - lowest)), at_least), at_most) END AS k_up,
            CASE WHEN lowest >= 0 THEN at_least WHEN highest <= 0 THEN at_most
                ELSE least(greatest(floor((n * highest - total) / (highest - lowest)), at_least), at_most) END AS k_down
        FROM query_table(inside)
    )
    SELECT
        *,
        greatest(
            least(k_up * highest, total - (n - k_up) * lowest),
            least(least(k_up + 1, at_most) * highest, total - (n - least(k_up + 1, at_most)) * lowest)
        ) AS part_high,
        least(
            greatest(k_down * lowest, total - (n - k_down) * highest),
            greatest(least(k_down + 1, at_most) * lowest, total - (n - least(k_down + 1, at_most)) * highest)
        ) AS part_low
    FROM turned;
