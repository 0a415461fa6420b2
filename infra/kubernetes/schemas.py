"""Kubernetes' own description of its API -> schemas of its kinds as kubeconform reads them, without network.

python -m infra.kubernetes.schemas SWAGGER FOLDER
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# What the description calls a text and the API takes as a number too.
_EITHER = {"oneOf": [{"type": "string"}, {"type": "integer"}]}
_ALSO_NUMBERS = (
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
    "io.k8s.apimachinery.pkg.api.resource.Quantity",
)


def write_schemas(swagger: Path, folder: Path) -> int:
    """Write a schema for each kind, which allows no other keys than it names; return how many kinds there are."""
    folder.mkdir(parents=True, exist_ok=True)
    definitions: dict[str, Any] = json.loads(swagger.read_text(encoding="utf-8"))["definitions"]
    for definition in definitions.values():
        if "properties" in definition:
            definition["additionalProperties"] = False
    definitions |= dict.fromkeys(_ALSO_NUMBERS, _EITHER)
    (folder / "definitions.json").write_text(json.dumps({"definitions": definitions}), encoding="utf-8")
    written = 0
    for name, definition in definitions.items():
        for kind in definition.get("x-kubernetes-group-version-kind", ()):
            group = kind["group"].partition(".")[0]
            parts = [kind["kind"], *([group] if group else []), kind["version"]]
            schema = {"$ref": f"definitions.json#/definitions/{name}"}
            (folder / f"{'-'.join(parts).lower()}.json").write_text(json.dumps(schema), encoding="utf-8")
            written += 1
    return written


def main(argv: Sequence[str] | None = None) -> int:
    """Write the schemas and say how many."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("swagger", type=Path)
    parser.add_argument("folder", type=Path)
    asked = parser.parse_args(argv)
    print(f"{write_schemas(asked.swagger, asked.folder)} kinds in {asked.folder}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
