"""Homes of one Airflow as its DAGs need them, and the credentials that their tasks take from it."""
