// Package telemetryblock finds requests blocked inside telemetry, logging or
// instrumentation code: on its lock, on its full queue, or on its slow sink.
package telemetryblock

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
	Name:    "telemetryblock",
	Title:   "requests blocked inside telemetry",
	Role:    detect.Cause,
	Doc:     doc,
	Needs:   []detect.Need{{Input: detect.Stacks}, {Input: detect.Waits}},
	NoAlert: "series count waiting for locks but do not say whose lock it is",
	Run:     run,
}

func run(p *detect.Pass) error {
	ours := func(l *detect.LockSet) bool { return l.Telemetry.Is }
	detect.LockFindings(p, ours, next)
	handovers(p)
	detect.RuleOutLocks(p, ours, "a telemetry lock")
	return nil
}

// handovers reports requests that wait to hand something to telemetry: a queue
// that is full, or a write to a sink that takes none.
func handovers(p *detect.Pass) {
	v := p.Waiters()
	if v == nil || v.Cumulative && v.Kind == detect.Waits {
		return
	}
	for _, s := range v.Sites(func(c *detect.Crowd) bool {
		if !c.Telemetry.Is {
			return false
		}
		switch c.Wait.Kind {
		case stacks.Chan, stacks.Select, stacks.Cond, stacks.Syscall, stacks.Socket, stacks.Pool:
			return true
		}
		return false
	}) {
		if !v.Material(s.N, s.Events, detect.MaterialCount) {
			continue
		}
		f := detect.Finding{Wait: string(s.Kind), Severity: detect.SeverityOf(v, v.Weigh(s.N)), Confidence: detect.ConfidenceOf(v, s.N, v.Weigh(s.N)), Crowds: s.All()}
		f.Name(s.Site)
		v.Count(&f, s.N, s.Events)
		what := "until it takes what they hand over (back-pressure)"
		if s.Crowds[0].Wait.Send {
			what = "on a full queue (back-pressure)"
		}
		f.Next = []string{
			"let telemetry drop when its queue is full rather than wait: most exporters have such a mode",
			"look at what empties the queue: an exporter or sink that has stalled",
		}
		if s.Kind == stacks.Syscall || s.Kind == stacks.Socket {
			what = "writing to its sink, which takes the data too slowly"
			f.Next = sinkAdvice
		}
		if s.Telemetry.ByWord {
			f.Confidence = detect.Weaker(f.Confidence, detect.Medium)
			f.Warnings = append(f.Warnings, fmt.Sprintf("counted as telemetry only because its path has the element %q", s.Telemetry.Name))
		}
		f.Summary = fmt.Sprintf("%s wait inside telemetry, in %s, %s", v.Of(s.N, s.Events), s.Site.Func, what)
		f.Evidence = v.SiteEvidence(s)
		if w := v.Worker(s.Site); w != nil {
			h := detect.DescribeCrowd(w, w.Wait.Site)
			f.Evidence = append(f.Evidence, detect.Evidence{Text: "what should take it is " + h.Wait, Input: v.Name, Stack: h.Stack})
		}
		if p.Block != nil && p.Block != v && !p.Block.Cumulative {
			if e, ok := p.Block.InView(s); ok {
				f.Evidence = append(f.Evidence, e)
			}
		}
		p.Report(f)
	}
}

var sinkAdvice = []string{
	"look at who reads the log's pipe, terminal or disk: a stopped reader of stdout or stderr stops every writer",
	"put a buffer that drops between the logger and its sink, so that a slow sink costs log lines and not requests",
	"until then, lower the log level: fewer lines, shorter queue",
}

func next(l *detect.LockSet, f *detect.Finding) []string {
	root := f.Holder.Root()
	if l.Kind == stacks.FDLock || root != nil && (strings.Contains(root.Wait, "system call") || strings.Contains(root.Wait, "descriptor")) {
		return sinkAdvice
	}
	lib := l.Site.Package
	if l.Site.Library() != "" {
		lib = l.Site.Library()
	}
	var out []string
	if l.Telemetry.ByWord {
		out = append(out, fmt.Sprintf("check first that %s is telemetry and not the application's own state: only its name says so", l.Site.Package))
	}
	out = append(out, fmt.Sprintf("switch this telemetry off, or sample it, on one affected instance and see whether requests move: it is the fastest proof (%s)", lib))
	if creates(l.Site.Name) {
		out = append(out, "take the call off the request path: create instruments once at start, not on each recording, and keep what you got")
	} else {
		out = append(out, "take it off the request path: hand over to a queue that drops when it is full, or record into something without a shared lock")
	}
	switch {
	case root != nil && strings.Contains(root.Wait, "answer"):
		out = append(out, "its holder waits for another process under the lock: give that call a short time-out, or move it out of the lock")
	case root != nil && strings.HasPrefix(root.Wait, "run"):
		out = append(out, "its holder computes under the lock: do less there, or do it less often")
	default:
		out = append(out, "until it is mended, shed load rather than add instances: each new one waits for its own copy of this lock")
	}
	const most = 3 // what one does first
	return out[:min(len(out), most)]
}

// creates reports whether a function makes or looks up an instrument, which
// belongs at the start of a service and not on its request path.
func creates(name string) bool {
	for _, verb := range [...]string{"Register", "MustRegister", "GetOrCreate", "GetOrRegister", "getOrCreate", "Lookup", "lookup", "New", "Meter", "Tracer", "Int64", "Float64", "SubScope", "Tagged"} {
		if strings.HasPrefix(name, verb) {
			return true
		}
	}
	return false
}
