"""The control store: the database in which machines that share a home keep their leases, and records of jobs."""
