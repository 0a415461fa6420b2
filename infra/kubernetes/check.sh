#!/usr/bin/env bash
# Lint the chart, render it and hold what comes out to Kubernetes' own schemas. Needs Go, which builds the tools once into .tools/bin:
# some six minutes of a processor, 120 MB. With --write, the rendered chart that the tests read is written anew.
set -euo pipefail
cd "$(dirname "$0")/../.."

HELM=v3.19.2
KUBECONFORM=v0.7.0
KUBERNETES=1.34.3
tools=$PWD/.tools/bin
schemas=$PWD/.tools/kubernetes-$KUBERNETES
chart=infra/kubernetes/tidemark

install() {
    [ -x "$tools/$1" ] || GOBIN=$tools go install "$2"
}

install helm "helm.sh/helm/v3/cmd/helm@$HELM"
install kubeconform "github.com/yannh/kubeconform/cmd/kubeconform@$KUBECONFORM"
if [ ! -d "$schemas" ]; then
    module=$(go mod download -json "k8s.io/kubernetes@v$KUBERNETES" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
    .venv/bin/python -m infra.kubernetes.schemas "$module/api/openapi-spec/swagger.json" "$schemas"
fi
"$tools/helm" lint --quiet --strict "$chart"
render() {
    "$tools/helm" template lake "$chart" --kube-version "$KUBERNETES" "$@"
}
check() {
    "$tools/kubeconform" -strict -summary -schema-location "$schemas/{{ .ResourceKind }}{{ .KindSuffix }}.json" -
}
render | check
for example in example example-pods example-connect; do
    "$tools/helm" lint --quiet --strict "$chart" --values "infra/kubernetes/$example.yaml"
    render --values "infra/kubernetes/$example.yaml" | check
    rendered=tests/infra/kubernetes${example#example}.yaml
    if [ "${1:-}" = --write ]; then
        render --values "infra/kubernetes/$example.yaml" >"$rendered"
    else
        render --values "infra/kubernetes/$example.yaml" | diff "$rendered" - ||
            { echo "the chart has changed: infra/kubernetes/check.sh --write" && exit 1; }
    fi
done
# Templates of pods are texts in a ConfigMap; Airflow makes a pod of one for each task.
.venv/bin/python -m tests.infra.pod_templates tests/infra/kubernetes-pods.yaml | check
.venv/bin/python -m tests.dags.pods 2>/dev/null | check
