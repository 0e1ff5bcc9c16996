module peers.example

go 1.26.0

require (
	github.com/DataDog/gostackparse v0.7.0
	github.com/contend/contend v0.0.0
	github.com/maruel/panicparse/v2 v2.5.0
)

require github.com/google/pprof v0.0.0-20261105003125-4bf881d7fb0b // indirect

replace github.com/contend/contend => ../../../..
