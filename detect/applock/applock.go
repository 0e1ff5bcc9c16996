// Package applock finds requests that wait for a lock outside telemetry.
package applock

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/ingest/stacks"
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
	ours := func(l *detect.LockSet) bool { return !l.Telemetry.Is }
	detect.LockFindings(p, ours, next)
	detect.RuleOutLocks(p, ours, "a lock outside telemetry")
	return nil
}

func next(l *detect.LockSet, f *detect.Finding) []string {
	root := f.Holder.Root()
	if l.Kind == stacks.FDLock || root != nil && strings.Contains(root.Wait, "system call in log") {
		return []string{
			"look at who reads this file: a stopped reader of stdout, stderr or a pipe stops every writer, and a slow disk slows them all",
			"write through a buffer that drops when it is full, off the request path",
		}
	}
	if f.Holder == nil && strings.Contains(f.Holds, "leaked, not contended") {
		return []string{
			fmt.Sprintf("look for a return or panic between Lock and Unlock in the functions that lock what %s waits for: Unlock belongs in a defer", l.Site.Func),
			"restart the process: nothing will release the lock",
		}
	}
	if len(l.Addresses) > 1 && l.One() == 0 {
		return []string{
			fmt.Sprintf("read what %s does between Lock and Unlock: the lock is split already, so what it does there is too long", l.Site.Func),
			"admit fewer requests at once until it is shorter",
		}
	}
	inside := f.Function
	if f.Holder != nil && f.Holder.Confidence != detect.Low {
		inside = f.Holder.Function
	}
	out := []string{fmt.Sprintf("read what %s does while it holds the lock: every wait in there is everybody's wait", inside)}
	switch {
	case root != nil && strings.HasPrefix(root.Wait, "run"):
		out = append(out, "it is held briefly and taken often: take it less often, or do less under it")
	case root != nil && strings.Contains(root.Wait, "channel") && beside(l) != nil:
		out = append(out, fmt.Sprintf("see whether %s, which waits for this lock too, is the other end of the channel that the holder waits at: then it is a deadlock, and only a restart ends it", beside(l).Func))
	case root != nil && root.Confidence != detect.Low:
		out = append(out, fmt.Sprintf("take out of the lock what its holder does there: it is %s", root.Wait))
	case root != nil:
		out = append(out, fmt.Sprintf("see whether %s holds it: it is %s", root.Function, root.Wait))
	case l.Site.Std:
		out = append(out, "this lock is the standard library's: call it less often, or from fewer goroutines")
	default:
		out = append(out, "take ?debug=2 dumps a minute apart: ages of minutes mean that it was never released, waiters that change mean that it is held often")
	}
	return append(out, "shorten or split the lock (by key, or copy on write); until then admit fewer requests at once")
}

// beside is the site of a waiter outside handlers where requests wait too: a
// worker that may be what they, or the lock's holder, wait for.
func beside(l *detect.LockSet) *stacks.Frame {
	for _, c := range l.Waiters {
		if !c.Request && l.Site.Func != c.Site().Func {
			return c.Site()
		}
	}
	return nil
}
