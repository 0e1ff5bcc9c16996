#!/bin/sh
# Writes the captures of ../versions, one folder for each Go release below.
# Releases that are not installed are fetched as toolchain modules. Profiles hold
# the path of the binary that wrote them, so it is built at a neutral one.
set -eu
cd "$(dirname "$0")"
releases=${*:-go1.20.14 go1.21.13 go1.22.12 go1.23.12 go1.24.9 go1.25.5 go1.26.8 go1.27.0}
versions=../versions
bin=${BIN:-/opt/waits/waits}
mkdir -p "$(dirname "$bin")"
export CGO_ENABLED=0 GOTRACEBACK=all GOFLAGS=-buildvcs=false

build() { GOTOOLCHAIN=$1 go build -trimpath -o "$bin" .; }

compress() { # directory: text is gzipped without name or time
	for f in "$1"/*.txt; do gzip -9nf "$f"; done
}

for release in $releases; do
	minor=$(echo "$release" | cut -d. -f1,2)
	dir=$versions/$minor
	rm -rf "$dir" && mkdir -p "$dir"
	build "$release"
	"$bin" -out "$dir"
	"$bin" -mode panic 2>"$dir/panic.txt" || true
	"$bin" -mode quit 2>"$dir/sigquit.txt" >/dev/null & # parked well within two seconds
	sleep 2
	kill -QUIT $!
	wait $! || true
	compress "$dir"

	case $minor in
	go1.26 | go1.27)
		# Labels in tracebacks are off in a module of Go 1.26 or older unless asked for.
		GODEBUG=tracebacklabels=1 "$bin" -mode labels -out "$versions/labels-$minor"
		compress "$versions/labels-$minor"
		[ "$minor" != go1.26 ] || GOEXPERIMENT=goroutineleakprofile build "$release"
		"$bin" -mode leak -out "$versions/leak-$minor"
		compress "$versions/leak-$minor"
		;;
	esac
	echo "$release done"
done
rm -f "$bin"
