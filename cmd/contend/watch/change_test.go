package watch

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/all"
	"github.com/contend/contend/ingest"
	"github.com/contend/contend/ingest/series"
	"github.com/contend/contend/ingest/series/memory"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// step is one look of a story: what its report has, and all that is said of it.
type step struct {
	at      string // after noon
	has     string // findings: detector severity, and "alert" where series show it, "past" where it is over
	verdict string // its cause
	blind   string // inputs that cannot be seen: "server", "process"
	series  string // of the job: "" go on, "end" have ended, "other" all but those of lockwait go on, "gone" are not in the window
	gone    bool   // the process is looked at no more
	want    string // changes, without times
}

// TestChanges tells stories of looks each 15 s at the job app, of which there are
// a server and a process. Each line says all changes, and no other may be.
func TestChanges(t *testing.T) {
	t.Parallel()
	for name, story := range map[string][]step{
		"a finding of stacks ends 2 minutes after it was last seen": {
			{at: "0s", has: "applock warning", want: "begins applock warning"},
			{at: "15s", has: "applock warning"},
			{at: "30s"},
			{at: "2m0s"},
			{at: "2m15s", want: "ends applock warning after 2m15s"},
			{at: "2m30s"},
		},
		"one that comes back before that has not ended": {
			{at: "0s", has: "applock warning", want: "begins applock warning"},
			{at: "1m45s"},
			{at: "2m0s", has: "applock warning"},
			{at: "3m45s"},
			{at: "4m0s", want: "ends applock warning after 4m0s"},
		},
		"an alert has its own hysteresis behind it": {
			{at: "0s", has: "lockwait critical alert", want: "begins lockwait critical"},
			{at: "15s", has: "lockwait critical alert past", want: "ends lockwait critical after 15s"},
			{at: "30s", has: "lockwait critical alert past"},
		},
		"severity rises at once and falls after a while": {
			{at: "0s", has: "applock warning", want: "begins applock warning"},
			{at: "15s", has: "applock critical", want: "changes applock critical was warning"},
			{at: "30s", has: "applock warning"},
			{at: "45s", has: "applock critical"},
			{at: "1m0s", has: "applock info"},
			{at: "2m45s", has: "applock warning"},
			{at: "3m0s", has: "applock warning", want: "changes applock warning was critical"},
		},
		"what cannot be looked for has not ended": {
			{at: "0s", has: "applock warning, herd warning alert", want: "begins applock warning; begins herd warning"},
			{at: "15s", has: "herd warning alert", blind: "process", want: "blind process: no answer"},
			{at: "10m0s", has: "herd warning alert", blind: "process"},
			{at: "10m15s", blind: "server", want: "blind server: no answer; sees process it was blind for 10m0s"},
			{at: "11m45s", blind: "server"},
			{at: "12m0s", blind: "server", want: "ends applock warning after 12m0s"},
			{at: "12m15s", want: "sees server it was blind for 2m0s; ends herd warning after 12m15s"},
		},
		"series that have ended say nothing": {
			{at: "0s", has: "lockwait warning alert", want: "begins lockwait warning"},
			{at: "15s", series: "end", want: "blind job app: the series that show it have ended: whether lockwait goes on cannot be seen"},
			{at: "30s", series: "end"},
			{at: "45s", has: "lockwait warning alert"},
			{at: "1m0s", series: "end", want: "blind job app: the series that show it have ended: whether lockwait goes on cannot be seen"},
			{at: "20m0s", series: "gone", want: "ends lockwait warning its job has no series any more: not known to be over, after 20m0s"},
		},
		"nor do those of other signals": {
			{at: "0s", has: "lockwait warning alert, inflightcpu warning alert", want: "begins inflightcpu warning; begins lockwait warning"},
			{at: "15s", series: "other", want: "ends inflightcpu warning after 15s; blind job app: the series that show it have ended: whether lockwait goes on cannot be seen"},
			{at: "30s", series: "other"},
			{at: "45s", want: "ends lockwait warning after 45s"},
		},
		"a process that is looked at no more says nothing": {
			{at: "0s", has: "applock warning", want: "begins applock warning"},
			{at: "15s", blind: "process", want: "blind process: no answer"},
			{at: "15m0s", gone: true, want: "ends applock warning its job has no process any more: not known to be over, after 15m0s"},
			{at: "15m15s", has: "applock warning", want: "begins applock warning"},
		},
		"the verdict goes to the cause that began later, and back only after a while": {
			{at: "0s", has: "lockwait warning alert", verdict: "lockwait", want: "begins lockwait warning; verdict lockwait"},
			{at: "15s", has: "lockwait info alert, applock warning", verdict: "applock", want: "begins applock warning; verdict applock"},
			{at: "30s", has: "lockwait warning alert, applock warning", verdict: "lockwait"},
			{at: "45s", has: "lockwait warning alert, applock warning", verdict: "applock"},
			{at: "1m0s", has: "lockwait warning alert, applock warning", verdict: "lockwait"},
			{at: "3m0s", has: "lockwait warning alert, applock warning", verdict: "lockwait", want: "verdict lockwait"},
			{at: "3m15s", has: "applock warning, lockwait warning alert past", want: "ends lockwait warning after 3m15s; verdict none"},
			{at: "3m30s", has: "applock warning", verdict: "applock", want: "verdict applock"},
		},
		"nor does it go to a cause that is left when the other is just not seen": {
			{at: "0s", has: "applock warning", verdict: "applock", want: "begins applock warning; verdict applock"},
			{at: "15s", has: "lockwait warning alert", verdict: "lockwait", want: "begins lockwait warning"},
			{at: "30s", has: "lockwait warning alert", verdict: "lockwait"},
			{at: "2m0s", has: "lockwait warning alert", verdict: "lockwait", want: "ends applock warning after 2m0s; verdict lockwait"},
		},
		"what is over is no verdict": {
			{at: "0s", has: "lockwait critical alert past", verdict: "lockwait"},
		},
		"of several findings of a detector the worst counts": {
			{at: "0s", has: "applock info, applock warning, applock info", want: "begins applock warning"},
			{at: "15s", has: "applock warning, applock critical", want: "changes applock critical was warning"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tracker := &Tracker{Interval: 15 * time.Second}
			blind := map[string]time.Time{}
			for _, s := range story {
				look := lookOf(t, s, blind)
				var got []string
				for _, c := range tracker.Changes(look) {
					got = append(got, brief(c))
				}
				if got := strings.Join(got, "; "); got != s.want {
					t.Errorf("at %s: %q, want %q", s.at, got, s.want)
				}
			}
		})
	}
}

// brief is a change without its times.
func brief(c Change) string {
	var words []string
	if words = append(words, string(c.Kind)); c.Finding != nil {
		words = append(words, c.Finding.Detector)
	}
	text, _, _ := strings.Cut(c.Text, ", since 2026")
	switch c.Kind {
	case Begins:
		return strings.Join(append(words, string(c.Finding.Severity)), " ")
	case Changes:
		text, _, _ = strings.Cut(text, ":")
		return strings.Join(append(words, string(c.Finding.Severity), text), " ")
	case Ends:
		return strings.Join(append(words, string(c.Finding.Severity), text), " ")
	case Verdict:
		if c.Finding == nil {
			words = append(words, "none")
		}
		return strings.Join(words, " ")
	case Blind:
		return fmt.Sprintf("%s %s: %s", c.Kind, c.Input, text)
	}
	return strings.Join(append(words, c.Input, text), " ")
}

func lookOf(t *testing.T, s step, blind map[string]time.Time) *Look {
	t.Helper()
	after, err := time.ParseDuration(s.at)
	if err != nil {
		t.Fatal(err)
	}
	r := &detect.Report{Verdict: detect.Verdict{Cause: s.verdict, Job: "app"}}
	for text := range strings.SplitSeq(s.has, ", ") {
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		f := detect.Finding{Detector: words[0], Role: detect.Cause, Severity: detect.Severity(words[1]), Job: "app", Past: slices.Contains(words, "past")}
		if slices.Contains(words, "alert") {
			f.Alert = "Contend"
		}
		r.Findings = append(r.Findings, f)
	}
	look := &Look{At: noon.Add(after), Report: r, detectors: all.Detectors(), bundle: &ingest.Bundle{Series: seriesOf(s.series, noon.Add(after))}}
	for _, in := range []Input{{Name: "server"}, {Name: "process", Job: "app"}} {
		if s.blind == in.Name {
			in.Why = "no answer"
			if blind[in.Name].IsZero() {
				blind[in.Name] = look.At
			}
			in.Blind = blind[in.Name]
		} else {
			delete(blind, in.Name)
		}
		if !s.gone || in.Job == "" {
			look.Inputs = append(look.Inputs, in)
		}
	}
	return look
}

// seriesOf is what a server has of the job app.
func seriesOf(how string, end time.Time) *series.Canonical {
	c := &series.Canonical{Store: memory.New(), End: end, Timing: series.Timing{Interval: 15 * time.Second}}
	add := func(at time.Time, metrics ...string) {
		for _, metric := range metrics {
			c.Store.Append(lset("__name__", metric, "job", "app", "instance", "a"), []int64{at.UnixMilli()}, []float64{1})
		}
	}
	switch all, before := []string{"contend:inflight", "contend:cpu", "contend:arrivals", "contend:lock_wait"}, end.Add(-5*time.Minute); how {
	case "gone":
		return c
	case "end":
		add(before, all...)
		add(end, "contend:up")
	case "other":
		add(end, all[:3]...)
		add(before, all[3])
	default:
		add(end, all...)
	}
	c.Jobs = []string{"app"}
	return c
}

// More findings than anybody reads are not told, which is told once.
func TestManyFindings(t *testing.T) {
	t.Parallel()
	look := &Look{At: noon, Report: &detect.Report{}, bundle: &ingest.Bundle{}}
	for i := range maxTracked + 10 {
		look.Report.Findings = append(look.Report.Findings, detect.Finding{Detector: "applock", Severity: detect.Info, Job: fmt.Sprint(i)})
	}
	tracker := &Tracker{Interval: time.Second}
	changes := tracker.Changes(look)
	if len(changes) != maxTracked+1 || len(tracker.Current()) != maxTracked {
		t.Errorf("%d changes, %d findings; want %d and %d", len(changes), len(tracker.Current()), maxTracked+1, maxTracked)
	}
	look.At = noon.Add(time.Second)
	if again := tracker.Changes(look); len(again) != 0 {
		t.Errorf("at the next look: %v", again)
	}
	// Their jobs are gone, and as many others come: what is left out is told anew.
	for i, last := range look.Report.Findings {
		last.Job = "other " + last.Job
		look.Report.Findings[i] = last
	}
	look.bundle.Series = &series.Canonical{}
	look.At = noon.Add(2 * time.Second)
	tracker.Changes(look)
	look.At = noon.Add(3 * time.Second)
	told := 0
	for _, c := range tracker.Changes(look) {
		if c.Kind == Blind {
			told++
		}
	}
	if told != 1 || len(tracker.Current()) != maxTracked {
		t.Errorf("%d times told of %d findings, want once of %d", told, len(tracker.Current()), maxTracked)
	}
}

// What comes from series and profiles cannot write to a terminal.
func TestHostileChange(t *testing.T) {
	t.Parallel()
	c := Change{At: noon, Kind: Begins, Finding: &Tracked{Detector: "applock", Severity: detect.Critical, Job: "a\x1b[2J\nb"}, Text: "x\r\x07y"}
	if line := c.String(); strings.ContainsFunc(line, func(r rune) bool { return r < ' ' }) {
		t.Errorf("%q", line)
	}
}
