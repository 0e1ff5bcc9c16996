package main

import (
	"fmt"
	"strings"
)

// truth is what is right to find in a case. It is written by hand beside the
// fault, never from what a program finds.
type truth struct {
	why         string // the case in one sentence
	want, allow []reasoned
	verdicts    []string // any of these is right
	selector    string   // of the service to look at, where the file has several
	cannotLook  []reasoned
}

// reasoned is a detector with why it stands there.
type reasoned struct{ detector, reason string }

// none is the verdict where no cause is to be named.
const none = "none"

func (t *truth) wants(detector, reason string) {
	t.want = append(t.want, reasoned{detector, reason})
}

func (t *truth) allows(reason string, detectors ...string) {
	for _, d := range detectors {
		t.allow = append(t.allow, reasoned{d, reason})
	}
}

// wantsUnlessBlind wants a finding or "could not look".
func (t *truth) wantsUnlessBlind(detector, reason, blind string) {
	t.wants(detector, reason)
	t.cannotLook = append(t.cannotLook, reasoned{detector, blind})
}

// verdict is right where it is one of these.
func (t *truth) verdict(names ...string) { t.verdicts = names }

// silent is a case in which nothing may be found.
func (c *Case) silent(why, traps string) {
	c.why, c.traps = why, traps
	c.verdict(none)
}

// sight is whether a detector can look at a case, and why.
type sight struct {
	detector           string
	can                bool
	because, otherwise string
}

// sights follow from what the file has.
func (c *Case) sights() []sight {
	v, d := c.svc, c.svc.dialect
	gauge := v.inFlightName != "" || d == otelPython || d == otlp || d == otlpDotted || d == otelJava || d == spring
	knowsCores := d == golang || d == grpcGo || d == spring || d == otelJava || d == otlpDotted
	checks := d != noMetrics && !v.ownHealthPort
	return []sight{
		{"cpubound", knowsCores || c.kube.cadvisor && v.limitCores > 0, "CPU and its limit are in the file", "no limit of CPU in the file"},
		{"downstream", v.hasClient, "the client's histogram is in the file", "no metrics of calls to others"},
		{"healthcheck", checks || c.blackbox || c.kube.probes || c.proxies == haproxy, "health checks are in the file", "no series of health checks"},
		{"herd", true, "arrivals are in the file", ""},
		{"hungrequests", gauge || d == grpcGo || c.proxies == envoy, "requests in flight are in the file", "no level of requests in flight"},
		{"inflightcpu", gauge, "in-flight gauge and CPU are in the file", "no in-flight gauge beside the CPU of the same process"},
		{"lockheadroom", v.mutexMetric, "the runtime's lock-wait counter is in the file", "no lock-wait counter in the file"},
		{"lockwait", v.mutexMetric, "the runtime's lock-wait counter is in the file", "no lock-wait counter in the file"},
		{"memorygrowth", c.kube.cadvisor && v.memoryLimit > 0, "memory and its limit are in the file", "no limit of memory in the file"},
		{"poolwait", v.hasSQL || v.hikari, "the pool's series are in the file", "no pool's series in the file"},
		{"replacement", d == golang || d == grpcGo || d == spring || d == nodeJS || c.kube.stateMetrics, "start times or restarts are in the file", "neither start times nor restarts in the file"},
	}
}

// truthText is truth.txt.
func (c *Case) truthText() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", c.why)
	line := func(word, name, reason string) {
		fmt.Fprintf(&b, "%-7s %-13s # %s\n", word, name, reason)
	}
	if c.selector != "" {
		fmt.Fprintf(&b, "select  %s\n", c.selector)
	}
	for _, x := range c.want {
		line("want", x.detector, x.reason)
	}
	for _, x := range c.allow {
		line("allow", x.detector, x.reason)
	}
	for _, name := range c.verdicts {
		fmt.Fprintf(&b, "verdict %s\n", name)
	}
	blind := map[string]bool{}
	for _, x := range c.cannotLook {
		blind[x.detector] = true
		line("skip", x.detector, x.reason)
	}
	for _, x := range c.sights() {
		switch {
		case blind[x.detector]:
		case x.can:
			line("look", x.detector, x.because)
		default:
			line("skip", x.detector, x.otherwise)
		}
	}
	return b.String()
}
