#!/usr/bin/env bash
# Check that the last commit works without this checkout: cloned elsewhere, its make prints help, its set-up finds the
# installed packages, a wheel of it holds every file that it needs, and that wheel runs on its own.
# Packages and jars are taken over from this checkout's environment, so that nothing is downloaded twice.
set -euo pipefail
cd "$(dirname "$0")/.."

here=$PWD
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

git clone --quiet --no-hardlinks "$here" "$scratch/clone"
cd "$scratch/clone"

make | grep -q 'make demo'
echo "clone: make prints help"

dirty=$(git status --porcelain)
[ -z "$dirty" ] || { echo "clone: not clean: $dirty" >&2; exit 1; }

"$here/.tools/bin/uv" build --quiet --wheel --no-build-isolation --python "$here/.venv/bin/python" --out-dir "$scratch/wheel"
"$here/.tools/bin/uv" pip install --quiet --no-deps --target "$scratch/site" "$scratch"/wheel/*.whl
echo "clone: a wheel was built"

files() { (cd "$1" && find lakehouse jobs dags quality sql infra -type f ! -name '*.pyc' | sort); }
diff <(files "$scratch/clone" | grep -v '\.airflowignore$') <(files "$scratch/site") || {
    echo "clone: the wheel lacks files of the packages" >&2
    exit 1
}
echo "clone: the wheel holds every file"

cd "$scratch"
PYTHONPATH=$scratch/site "$here/.venv/bin/python" - "$scratch/site" <<'PYTHON'
import importlib, pathlib, sys

site = pathlib.Path(sys.argv[1])
for path in sorted(site.glob("*/**/*.py")):
    name = ".".join(path.relative_to(site).with_suffix("").parts).removesuffix(".__init__")
    if name.split(".")[0] in ("lakehouse", "jobs", "quality", "infra", "sql") and not name.endswith("__main__"):
        module = importlib.import_module(name)
        assert pathlib.Path(module.__file__).is_relative_to(site), (name, module.__file__)
PYTHON
echo "clone: every module imports from the wheel"
PYTHONPATH=$scratch/site "$here/.venv/bin/python" -m lakehouse.cli --help >/dev/null
echo "clone: the command line answers"
