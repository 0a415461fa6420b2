"""Pictures of Airflow's pages as a standing Airflow shows them: the grid and graph of a DAG, and the assets.

The test that takes them has them in its own folder; TIDEMARK_PICTURES=docs/pictures makes those of the documents.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from infra.airflow_standalone import Service
from tests.web.test_page import started_browser

# Name, page, and how that of a DAG is shown.
VIEWS = (
    ("airflow-grid", "dags/tidemark_ingest", "grid"),
    ("airflow-graph", "dags/tidemark_ingest", "graph"),
    ("airflow-backfill", "dags/tidemark_rollups", "grid"),
    ("airflow-assets", "assets", "grid"),
)


def take_pictures(service: Service, token: str, folder: Path) -> list[Path]:
    """Take every picture; return their files."""
    folder = Path(os.environ.get("TIDEMARK_PICTURES", folder))
    browser: Any = started_browser()
    try:
        browser.set_window_size(1200, 760)
        browser.get(f"{service.url}/auth/login")
        browser.add_cookie({"name": "_token", "value": token, "path": "/"})
        for name, page, view in VIEWS:
            browser.execute_script("localStorage.setItem('default_dag_view', arguments[0])", json.dumps(view))
            browser.execute_script("localStorage.setItem('chakra-ui-color-mode', 'light')")
            browser.get(f"{service.url}/{page}")
            # The pages ask for what they show after they are there.
            browser.execute_async_script("setTimeout(arguments[0], 6000)")
            browser.save_screenshot(str(folder / f"{name}.png"))
    finally:
        browser.quit()
    return [folder / f"{name}.png" for name, *_ in VIEWS]
