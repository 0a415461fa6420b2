"""What a deployment needs around the jobs.

setup.sh                what a fresh clone installs
demo.sh                 the tour that `make demo` runs
airflow_home.py         where Airflow's state lives and how it is set: the same for one run and for the service
airflow_standalone.py   Airflow's own UI and scheduler on a home
systemd/                the unit of `tidemark serve`
Containerfile           an image of it
grafana/                a dashboard of its metrics
"""
