#!/usr/bin/env bash
# Install what a fresh clone needs, inside the clone: uv into .tools, packages and this project into .venv, Spark's
# jars into the cache of this user. Needs Python 3.11 to 3.13 with venv and Java 17 or 21; says so when one is missing.
#
#   infra/setup.sh        everything
#   infra/setup.sh uv     only uv
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    printf 'setup: %s\n' "$@" >&2
    exit 1
}

python_fits() {
    command -v "$1" >/dev/null && "$1" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null
}

find_python() {
    local name
    for name in ${PYTHON:-} python3 python3.11 python3.12 python3.13; do
        if python_fits "$name"; then
            command -v "$name"
            return
        fi
    done
    fail "no Python 3.11, 3.12 or 3.13 with the venv module was found (python3 is $(python3 --version 2>&1 || true))." \
        "Debian, Ubuntu: apt-get install python3 python3-venv    macOS: brew install python@3.12" \
        "Or name one: make setup PYTHON=/path/to/python3.12"
}

check_java() {
    local java=${JAVA_HOME:+$JAVA_HOME/bin/}java version
    version=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1) || true
    case $version in
        17 | 21) ;;
        *) fail "Spark needs Java 17 (or 21); ${java} is ${version:-missing}." \
            "Debian, Ubuntu: apt-get install openjdk-17-jre-headless    macOS: brew install openjdk@17" \
            "If it is installed elsewhere, set JAVA_HOME to its folder." ;;
    esac
}

fetch_uv() {
    local python
    if [ ! -x .tools/bin/uv ]; then
        echo "setup: fetching uv into .tools"
        python=$(find_python)
        "$python" -m venv .tools
        .tools/bin/python -m pip install --quiet --disable-pip-version-check "uv>=0.8"
    fi
}

install_packages() {
    local python
    python=$(find_python)
    # An environment of another machine or another Python is no use: its interpreter must start.
    .venv/bin/python -c '' 2>/dev/null || .tools/bin/uv venv --quiet --clear --python "$python" .venv
    echo "setup: installing the pinned packages into .venv (1.6 GB the first time)"
    .tools/bin/uv pip install --quiet --python .venv/bin/python --require-hashes -r requirements.lock
    .tools/bin/uv pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation \
        --config-settings editable_mode=compat --editable .
}

if [ "${1:-}" = uv ]; then
    fetch_uv
    exit
fi
check_java
fetch_uv
install_packages
echo "setup: fetching Spark's jars, for Delta and Kafka (110 MB the first time)"
.venv/bin/python -m lakehouse.spark.jars
.venv/bin/python -m lakehouse.spark.class_archive 2>/dev/null || echo "setup: no archive of classes; sessions start slower"
echo "setup: ready. Next: make demo, or .venv/bin/tidemark --help"
