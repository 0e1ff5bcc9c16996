// Command record runs one scenario of the demo and records a bundle at its
// peak, or, without -out, only measures how the gateway holds up:
//
//	go run -trimpath ./demo/record -scenario telemetryblock -out DIR
//	go run -trimpath ./demo/record -scenario telemetryblock -rate 1000
//
// The gateway runs in a process of its own, this binary started again with
// -serve, so that the load's clients are not among its goroutines. It listens
// on loopback, and ends when its standard input ends: however the recorder
// dies, no gateway stays behind.
//
// A bundle is recorded with -trimpath only: profiles and dumps carry source
// paths, which then begin at the module and say nothing of the machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/contend/contend/demo/gateway"
)

// scenario is one fault, or none, and what it makes of the gateway.
type scenario struct {
	name, about string
	gateway     gateway.Config
}

var scenarios = []scenario{
	{"telemetryblock", "every recording registers its metrics again, under the registry's lock", gateway.Config{FaultyTelemetry: true}},
	{"healthy", "the same gateway with metrics registered once, at start", gateway.Config{}},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is main with its surroundings passed in. It returns the exit code: 1 for
// a run that failed, 2 for a usage error.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("record", flag.ContinueOnError)
	flags.SetOutput(stderr)
	name := flags.String("scenario", "", "`name` of the scenario, required")
	serve := flags.Bool("serve", false, "only serve the scenario's gateway: print its address, and end when standard input ends")
	var p plan
	flags.StringVar(&p.out, "out", "", "`directory` for the bundle, new or empty; without it the run is only measured")
	flags.Float64Var(&p.rate, "rate", 500, "API requests `per second`")
	flags.DurationVar(&p.ramp, "ramp", 5*time.Second, "load before the first profiles are taken")
	flags.DurationVar(&p.gap, "gap", 5*time.Second, "load from then to the second ones, the peak")
	flags.Usage = func() {
		fmt.Fprint(stderr, "usage: go run -trimpath ./demo/record -scenario NAME [-out DIR] [flags]\n\nscenarios:\n")
		for _, s := range scenarios {
			fmt.Fprintf(stderr, "  %-15s %s\n", s.name, s.about)
		}
		fmt.Fprint(stderr, "\nflags:\n")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}

	s, err := findScenario(*name)
	switch {
	case err != nil:
	case flags.NArg() > 0:
		err = fmt.Errorf("expected flags only, saw %q", flags.Arg(0))
	case p.out != "" && !trimmed():
		err = errors.New("expected a binary built with -trimpath, since a bundle must hold no path of the machine; try go run -trimpath")
	default:
		err = p.check()
	}
	if err != nil {
		fmt.Fprintf(stderr, "record: %v\n", err)
		return 2
	}

	if *serve {
		err = serveGateway(ctx, s, stdin, stdout)
	} else {
		err = recordScenario(ctx, s, p, stdout)
	}
	if err != nil {
		fmt.Fprintf(stderr, "record: %v\n", err)
		return 1
	}
	return 0
}

func findScenario(name string) (scenario, error) {
	for _, s := range scenarios {
		if s.name == name {
			return s, nil
		}
	}
	return scenario{}, fmt.Errorf("expected the name of a scenario, saw %q; -h lists them", name)
}

// trimmed reports whether this binary was built with -trimpath.
func trimmed() bool {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return false
	}
	for _, setting := range info.Settings {
		if setting.Key == "-trimpath" {
			return setting.Value == "true"
		}
	}
	return false
}
