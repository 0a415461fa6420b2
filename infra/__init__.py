"""Set-up and deployment of the jobs.

setup.sh                installs everything in a fresh clone
demo.sh                 the tour that `make demo` runs
airflow_home.py         the folder and settings of Airflow: the same for one run and for the scheduler
airflow_standalone.py   Airflow's own UI and scheduler on a home
systemd/                the unit of `tidemark serve`
Containerfile           an image of the service
grafana/                dashboards of metrics and answers
"""
