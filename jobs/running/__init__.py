"""The surroundings of a job: its command line, its outcome, and the task of a DAG that it is."""
