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

# Say what is done and how long it took; what the command itself says goes to the log.
step() {
    local started=$SECONDS
    printf 'setup: %s ... ' "$1"
    shift
    if "$@" >"$log" 2>&1; then
        printf '%s s\n' "$((SECONDS - started))"
    else
        printf 'failed; the end of %s:\n' "$log"
        tail -n 20 "$log" >&2
        return 1
    fi
}

install_uv() {
    local pinned python
    pinned=$(sed -n 's/^uv==\([0-9.]*\).*/\1/p' requirements-uv.lock)
    if [ "$(.tools/bin/uv --version 2>/dev/null | cut -d ' ' -f 2)" != "$pinned" ]; then
        python=$(find_python)
        step "installing uv $pinned into .tools" new_tools "$python"
    fi
}

new_tools() {
    "$1" -m venv .tools &&
        .tools/bin/python -m pip install --disable-pip-version-check --require-hashes -r requirements-uv.lock
}

install_packages() {
    local python
    python=$(find_python)
    # An environment of another machine or another Python is no use: its interpreter must start.
    .venv/bin/python -c '' 2>/dev/null || .tools/bin/uv venv --quiet --clear --python "$python" .venv
    step "installing the pinned packages into .venv (1.6 GB the first time)" \
        .tools/bin/uv pip install --python .venv/bin/python --require-hashes -r requirements.lock
    step "installing this project into .venv" \
        .tools/bin/uv pip install --python .venv/bin/python --no-deps --no-build-isolation \
        --config-settings editable_mode=compat --editable .
}

mkdir -p .tools
log=$PWD/.tools/setup.log
if [ "${1:-}" = uv ]; then
    install_uv
    exit
fi
check_java
install_uv
install_packages
step "fetching Spark's jars for Delta and Kafka (23 MB the first time)" .venv/bin/python -m lakehouse.spark.jars
# Both take half a minute, so they go on side by side.
.venv/bin/python -m infra.compile_kernels >"$log.kernels" 2>&1 &
compiling=$!
compiled() {
    wait "$compiling" || { cat "$log.kernels" && return 1; }
}
step "archiving Spark's classes, so that sessions start faster" .venv/bin/python -m infra.class_archive ||
    echo "setup: going on without the archive; sessions start slower"
step "compiling the loops of joins and aggregates, so that first batches start faster" compiled ||
    echo "setup: going on without them; each is compiled when it is first called"
echo "setup: ready. Next: make demo, or .venv/bin/tidemark --help"
