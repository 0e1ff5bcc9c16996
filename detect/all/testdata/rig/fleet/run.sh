#!/bin/sh
# Writes the cases that are in the repository again: run.sh OUT. About half a
# minute; the files are the same each time.
set -eu
out=$(realpath "$1")
cd "$(dirname "$0")"
small="-slim -instances 3 -minutes 90 -out $out"
go run . $small -interval 30 -case lock-mutex-go,lock-levels-go,lock-spare-go,lock-nomutex-otelpython,herd-absorbed-node,incident-go,upstream-slow-dotted,upstream-hung-oteljava,health-haproxy,spiral-newaddr-go,diurnal-oteljava,drop-otlp,busy-spring,gauge-leak-go,batch-node,gaps-flaky-go,slow-by-design-otelpython
# These have more targets, or more series of each.
go run . $small -interval 60 -case lock-mutex-grpc,pool-sql,hung-grpc,streams-grpc,herd-envoy,pool-hikari-leak,hung-spring-ltt,cpu-throttle-go,memory-inflight-go,wedged-go,steady-nginx,steady-traefik,rolling-kube-go,long-poll-spring,multi-healthy-selected
