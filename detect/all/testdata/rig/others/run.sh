#!/bin/sh
# Rebuilds captures: run.sh OUT [CASE...]. One service at a time, about 7 s each.
set -eu
out=$1; shift
cd "$(dirname "$0")"
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
go build -trimpath -o "$bin/service" .
for c in ${@:-$("$bin/service")}; do
	echo "$c" >&2
	timeout 30 "$bin/service" -case "$c" -out "$out" || echo "$c failed" >&2
done
