"""The templates of pods that a rendered chart keeps as texts of its ConfigMap, each as a document of its own.

python -m tests.infra.pod_templates RENDERED
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml


def pod_templates(rendered: Path) -> dict[str, dict[str, Any]]:
    """Return the pods that a file of rendered objects keeps as texts, by the name of the text."""
    kept = [
        each["data"]
        for each in yaml.safe_load_all(rendered.read_text(encoding="utf-8"))
        if each["kind"] == "ConfigMap"
    ]
    texts = {name: text for data in kept for name, text in data.items() if name.endswith(".yaml")}
    return {name: yaml.safe_load(text) for name, text in texts.items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Print them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("rendered", type=Path)
    print(yaml.safe_dump_all(pod_templates(parser.parse_args(argv).rendered).values()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
