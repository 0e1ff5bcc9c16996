#!/bin/sh
# Rebuilds captures: run.sh OUT CASE[@TOOLCHAIN]... One service at a time, about 7 s each.
# Cases of plain.go can be built with an older toolchain, as three-sites@go1.21.13.
# The binary is built in a neutral place, since its path gets into the profiles.
set -eu
out=$(realpath -m "$1"); shift
cd "$(dirname "$0")"
app=/srv/app
mkdir -p $app
export CGO_ENABLED=0
trap 'rm -r $app' EXIT
for c in "$@"; do
	name=${c%@*}
	if [ "$name" = "$c" ]; then
		go build -trimpath -tags libs -o $app/orders .
		dir=$out/$name
	else
		GOTOOLCHAIN=${c#*@} go build -trimpath -modfile=old.mod -o $app/orders .
		dir=$out/$name-${c#*@}
	fi
	mkdir -p "$dir"
	timeout 20 $app/orders -case "$name" -out "$dir"
done
