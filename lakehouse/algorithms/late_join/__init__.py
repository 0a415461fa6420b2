"""Window joins of two streams whose rows come late: at least the recall asked for at once, every pair after repair.

Called by lakehouse/queries/pairs: rows.py places rows in buckets, bucket.py runs ``QJoin`` with the policy that the
query names, repair.py ``missing_pairs``; checks, publish and completeness judge periods.
"""
