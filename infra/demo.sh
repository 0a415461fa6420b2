#!/usr/bin/env bash
# The tour: two simulated streams with late rows, repeats, bad clocks and dirt through the real DAGs, then questions.
# With --live, this machine's own sensors instead, recorded for 15 seconds. With --cluster, the same where
# TIDEMARK_SPARK__MASTER says, with answers compared to those of a tour without.
# Everything is written below ./demo, made new each time, or below $TIDEMARK_HOME, which is kept. Of a run only the
# progress is shown, and of the status only the streams, so that the tour stays within 100 lines.
set -euo pipefail
cd "$(dirname "$0")/.."

tour=demo
run=$PWD/.venv/bin/tidemark
if [ "${1:-}" = --cluster ]; then
    tour=demo-cluster/tour
fi
if [ -z "${TIDEMARK_HOME:-}" ]; then
    rm -rf "$tour"
    mkdir -p "$tour"
    folder=$PWD/$tour
    export TIDEMARK_HOME=$folder/var
else
    mkdir -p "$TIDEMARK_HOME"
    folder=$(cd "$TIDEMARK_HOME" && pwd)
fi
export TIDEMARK_CONFIG=$folder/tidemark.toml
tidemark=$PWD/.venv/bin/tidemark
started=$SECONDS

# A shell looks at signals between its commands: the long ones run beside it, so that they end with it.
beside() {
    "$@" &
    wait $!
}

ended() {
    trap '' TERM INT
    # shellcheck disable=SC2046
    kill $(jobs -p) 2>/dev/null || true
    wait
    exit "$1"
}
trap 'ended 143' TERM
trap 'ended 130' INT

step() {
    printf '\n$ tidemark %s\n' "$*"
    beside "$tidemark" "$@"
}

run() {
    printf '\n$ tidemark run      (log: %s)\n' "$TIDEMARK_HOME/airflow/logs/run.log"
    beside $run run >"$folder/run.txt"
    printf 'all figures: %s\n' "$folder/run.txt"
}

status() {
    printf '\n$ tidemark status      (its first lines)\n'
    "$tidemark" status | sed '/^levels of /,$d'
}

simulated() {
    [ -f "$TIDEMARK_CONFIG" ] || step init
    step simulate
    run
    status
    questions | tee "$folder/answers.txt"
    echo "$((SECONDS - started))" >"$folder/seconds"
}

questions() {
    step ask telemetry temp --agg avg --where device=sensor-007
    step ask flows bytes --by proto
    step sql "SELECT found, count(*) AS pairs FROM pairs_warmer_neighbours GROUP BY ALL"
    step sql "SELECT location, state, raised_at, cleared_at FROM alarms_warm_and_dry ORDER BY raised_at LIMIT 3"
    step sql "SELECT * FROM range_sum('telemetry', 'temp', TIMESTAMP '2026-01-01 06:00', TIMESTAMP '2026-01-01 09:30')"
}

live() {
    [ -f "$TIDEMARK_CONFIG" ] || printf '%s\n' '[streams.host]' 'preset = "host"' 'source.every = "1s"' \
        'levels = ["1s for 1h", "1m for 2d", "1h for 1y", "1d forever"]' >"$TIDEMARK_CONFIG"
    step collect --for 15s
    run
    status
    step ask host value --agg avg --where sensor=cpu --by part
    step plot host value --where sensor=cpu --where part=all --points 15
}

clustered() {
    printf '\n$ tidemark doctor      (what it says of Spark)\n'
    step init >/dev/null
    # It also refuses moto's server, which lets two writers of one commit win; the tour has one writer at a time.
    { "$tidemark" doctor || true; } | grep -E '^(check|spark)'
    simulated
    if [ -f demo/answers.txt ]; then
        # Lines that say how long an answer took differ.
        if ! diff <(grep -v ' ms' demo/answers.txt) <(grep -v ' ms' "$folder/answers.txt"); then
            echo 'The answers are not those of make demo.' >&2
            exit 1
        fi
        printf '\nThe answers are those of make demo.\n'
    else
        printf '\nmake demo gives the same answers without a cluster.\n'
    fi
}

case "${1:-}" in
--live) live ;;
--cluster) clustered ;;
*) simulated ;;
esac
if [ "${1:-}" = --cluster ]; then
    printf '\nThe demo took %s s. Master, workers, S3 server and Postgres end with it.\n' "$((SECONDS - started))"
    exit
fi
printf '\nThe demo took %s s. Go on with:\n' "$((SECONDS - started))"
printf '  export TIDEMARK_CONFIG=%s TIDEMARK_HOME=%s\n' "$TIDEMARK_CONFIG" "$TIDEMARK_HOME"
printf '  .venv/bin/tidemark web       then open the address that it prints\n'
printf '  .venv/bin/tidemark --help\n'
