#!/bin/sh
# Rebuilds captures: run.sh OUT [CASE...]. One service at a time, about 8 s each.
# The binary is built in a neutral place, since its path gets into the profiles.
set -eu
out=$(realpath -m "$1"); shift
cd "$(dirname "$0")"
app=/srv/app
mkdir -p $app "$out"
trap 'rm -r $app' EXIT
go build -trimpath -o $app/shop .
for c in ${@:-$($app/shop) crash}; do
	[ "$c" = crash ] && continue
	timeout 40 $app/shop -case "$c" -out "$out" || echo "$c failed" >&2
done
case "${*:-crash}" in *crash*) ;; *) exit ;; esac
export CGO_ENABLED=0
go build -trimpath -o $app/ ./crash/cycle ./crash/maps ./crash/asleep
go test -trimpath -c -o $app/ledger.test ./crash/hungtest
cd $app
mkdir -p "$out/t-test-timeout"
for c in cycle maps asleep; do
	mkdir -p "$out/t-crash-$c"
	GOTRACEBACK=all timeout 10 ./$c 2>"$out/t-crash-$c/goroutine.debug2.txt" || true
done
timeout 20 ./ledger.test -test.timeout 2s >"$out/t-test-timeout/goroutine.debug2.txt" 2>&1 || true
