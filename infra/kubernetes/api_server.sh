#!/usr/bin/env bash
# Build the API server of Kubernetes and etcd for tests that ask a real one: into .tools/kubernetes, or the folder that is named.
# Needs Go, and ten minutes of a processor.
set -euo pipefail
cd "$(dirname "$0")/../.."

KUBERNETES=1.34.3
to=$(realpath -m "${1:-.tools/kubernetes}")
module=$(go mod download -json "k8s.io/kubernetes@v$KUBERNETES" | sed -n 's/.*"GoMod": "\(.*\)".*/\1/p')
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
# Its module names parts of its own repository, which are published as modules of the same version.
{
    printf 'module build\n\ngo 1.24.0\n\nrequire k8s.io/kubernetes v%s\n\nreplace (\n' "$KUBERNETES"
    sed -n "s#^\t\(k8s.io/[a-z-]*\) => ./staging.*#\t\1 => \1 v0.${KUBERNETES#1.}#p" "$module"
    printf ')\n'
} >"$build/go.mod"
printf '//go:build tools\n\npackage build\n\nimport (\n\t_ "go.etcd.io/etcd/server/v3"\n\t_ "k8s.io/kubernetes/cmd/kube-apiserver"\n)\n' \
    >"$build/tools.go"
mkdir -p "$to"
cd "$build"
go mod tidy
go build -trimpath -ldflags='-s -w' -o "$to/kube-apiserver" k8s.io/kubernetes/cmd/kube-apiserver
go build -trimpath -ldflags='-s -w' -o "$to/etcd" go.etcd.io/etcd/server/v3
