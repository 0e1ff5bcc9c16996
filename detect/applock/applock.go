// Package applock finds requests that wait for a lock outside telemetry.
package applock

import (
	_ "embed"
	"fmt"

	"github.com/contend/contend/detect"
)

//go:embed README.md
var doc string

// Detector is the detector's value.
var Detector = &detect.Detector{
	Name:    "applock",
	Title:   "requests wait for a lock of the application",
	Role:    detect.Cause,
	Doc:     doc,
	Needs:   []detect.Need{{Input: detect.Stacks}, {Input: detect.Waits}},
	NoAlert: "series count waiting for locks but do not say whose lock it is",
	Run:     run,
}

func run(p *detect.Pass) error {
	detect.LockFindings(p, func(l *detect.LockSet) bool { return !l.Telemetry.Is }, next)
	if v := p.Main(); v != nil {
		n := 0.0
		for _, l := range v.Locks() {
			if !l.Telemetry.Is {
				n += l.InScope
			}
		}
		p.RuleOut("%s wait for a lock outside telemetry", v.Of(n, 0))
	}
	return nil
}

func next(l *detect.LockSet, h *detect.Holder) []string {
	out := []string{fmt.Sprintf("read what %s does between Lock and Unlock: every wait in there is everybody's wait", l.Site.Func)}
	switch {
	case h != nil:
		out = append(out, fmt.Sprintf("move out of the lock what its holder does now: %s", h.Wait))
	case l.Site.Std:
		out = append(out, "this lock is the standard library's: call it less often, or from fewer goroutines")
	default:
		out = append(out, "take a second dump some seconds later: the same goroutines in the same place mean it was never released, others mean it is held often")
	}
	return append(out, "shorten or split the lock (by key, or copy on write); until then admit fewer requests at once")
}
