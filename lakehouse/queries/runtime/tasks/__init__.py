"""Work of tasks over a query's rows: files read and filtered, rows in buckets, keys as codes, parts written."""
