"""Files as real devices send them: late, repeated, contradicting, dirty; and true counts of the written rows.

The same plan and seed give the same bytes. A second call continues in time where the first one ended.
"""
