#!/usr/bin/env bash
# Start one executor of Spark: the command of executors' pods, which Spark's driver gives the word `executor` and variables.
# The package of Spark on PyPI has no entry point for images, so this one says the same.
set -euo pipefail

[ "${1:-}" = executor ] || { echo "executor.sh: expected the word executor, got ${1:-none}" >&2 && exit 2; }
spark=$(python -c 'import importlib.util; print(importlib.util.find_spec("pyspark").submodule_search_locations[0])')
# The JVM's own options, each a variable with a number.
options=()
for ((number = 0; ; number++)); do
    name=SPARK_JAVA_OPT_$number
    [ -n "${!name+given}" ] || break
    options+=("${!name}")
done
classes="${SPARK_EXTRA_CLASSPATH:+$SPARK_EXTRA_CLASSPATH:}${SPARK_CONF_DIR:+$SPARK_CONF_DIR:}$spark/jars/*"
export SPARK_HOME=$spark
exec "${JAVA_HOME:+$JAVA_HOME/bin/}java" "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" -cp "$classes" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" \
    --executor-id "$SPARK_EXECUTOR_ID" \
    --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" \
    --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
    --podName "$SPARK_EXECUTOR_POD_NAME"
