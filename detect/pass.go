package detect

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/contend/contend/ingest/stacks"
)

// What is material. A share of 20 % and three goroutines make a cause; below
// that contention is everyday: the healthy captures show up to 6 % of requests
// at one lock in a snapshot. Under 5 % nothing is said at all.
const (
	MentionShare  = 0.05
	MaterialShare = 0.20
	criticalShare = 0.50
	MaterialCount = 3
	// A service that is well always has a few requests waiting for an answer or
	// a permit when one looks: the idle capture had two or three. Only waits for
	// locks are rare enough to tell at three.
	MaterialCalls = 5
	// firmCount is how many a finding takes to be of high confidence: ten in one
	// place at once is no accident of the moment.
	firmCount = 10
	// A cumulative profile is since the process began, however long that is. A
	// second of delay, and 100 µs a wait, is what it takes to be more than the
	// crumbs that every busy process leaves.
	cumulativeSeconds = 1.0
	cumulativeWait    = 100e-6
)

// Pass is what one detector is given of one process, or of one job's series; it
// reports into it.
type Pass struct {
	Detector *Detector
	Options  Options
	Process  string
	Stacks   *View // the snapshot shares are read from; nil where there is none
	Detail   *View // a snapshot with ids and addresses, of about the same moment; may be Stacks itself; nil where there is none
	Earlier  *View // an earlier snapshot of the same process; nil where there is none
	Growth   *View // a difference of two goroutine profiles (?seconds=N); nil where there is none
	Leaks    *View // a goroutineleak profile; nil where there is none
	Block    *View // nil where there is none
	Mutex    *View // nil where there is none

	// Series is a job's series; a pass has them or a process's profiles, never both.
	Series *SeriesView

	target   string // URL of the process, where its bundle says so
	job      string // its labels in the series, where its bundle says them
	instance string
	noSeries string             // why there are no series where there should be some
	before   []*stacks.Snapshot // Earlier's and those between it and Stacks', the last one first
	empty    []string           // contention profiles without a wait in them
	spells   []Spell            // see Spells; without their loads
	later    bool               // see Later
	beside   []*SeriesView      // of the jobs in the input
	notes    []string           // what its inputs were taken for
	findings []Finding
	ruledOut []RuledOut
}

// Report adds a finding; role and detector are filled in.
func (p *Pass) Report(f Finding) {
	f.Detector, f.Role = p.Detector.Name, p.Detector.Role
	f.Process = p.Process
	if p.instance != "" {
		f.Job, f.Instances = p.job, []string{p.instance}
	}
	if p.Series != nil {
		f.Job = p.Series.Job
	}
	p.findings = append(p.findings, f)
}

// RuleOut says that the detector looked and found nothing material, with its numbers.
func (p *Pass) RuleOut(format string, args ...any) {
	out := RuledOut{Detector: p.Detector.Name, Reason: fmt.Sprintf(format, args...), Process: p.Process}
	if p.Series != nil {
		out.Job = p.Series.Job
	}
	p.ruledOut = append(p.ruledOut, out)
}

// Waiters is the view that shows who waits: the snapshot, else the block
// profile; nil where there is neither. A mutex profile charges who releases.
func (p *Pass) Waiters() *View {
	if p.Stacks != nil {
		return p.Stacks
	}
	return p.Block
}

// Notes say what the process's inputs were taken for: two profiles for one process, or for two.
func (p *Pass) Notes() []string { return p.notes }

// Main is the view shares are read from: the snapshot, else the block profile,
// else the mutex profile.
func (p *Pass) Main() *View {
	for _, v := range [...]*View{p.Stacks, p.Block, p.Mutex} {
		if v != nil {
			return v
		}
	}
	return nil
}

// Material reports whether n of view v is worth a finding at all: at least
// atLeast of them and a mentionable share. Cumulative profiles, whose n are
// seconds, need a second of delay instead.
func (v *View) Material(n float64, events int64, atLeast float64) bool {
	if v.Weigh(n) < MentionShare {
		return false
	}
	if v.Cumulative && v.Kind == Waits {
		return v.Share(n) >= MaterialShare && n >= cumulativeSeconds && events > 0 && n/float64(events) >= cumulativeWait
	}
	// The mean over a window is no whole number: 4.6 waiting is five at times.
	return math.Round(n) >= atLeast
}

// SeverityOf a share of what is in flight in view v. A cumulative profile does
// not say that anything waits now.
func SeverityOf(v *View, share float64) Severity {
	if v.Cumulative && share >= MaterialShare {
		return Warning
	}
	return SeverityOfShare(share)
}

// ConfidenceOf n waiting in view v, which are a share of what is in flight.
func ConfidenceOf(v *View, n, share float64) Confidence {
	switch {
	case v.Cumulative:
		return Low
	case share >= criticalShare && n >= firmCount:
		return High
	case share >= MaterialShare && math.Round(n) >= MaterialCount:
		return Medium
	}
	return Low
}

// Weaker is the lesser of two confidences.
func Weaker(a, b Confidence) Confidence {
	rank := map[Confidence]int{High: 2, Medium: 1, Low: 0}
	if rank[a] < rank[b] {
		return a
	}
	return b
}

// Count fills in how many of how many wait, in the units v can give.
func (v *View) Count(f *Finding, n float64, events int64) {
	f.Unit = v.Unit
	switch {
	case v.Unit == Contentions:
		f.Blocked, f.Total = float64(events), float64(v.Events)
	case v.Unit == Samples:
		f.Blocked, f.Total = n, v.InFlight // which are no requests
	case v.Kind == Waits:
		f.Blocked, f.Total = round1(n), round1(v.InFlight)
		if v.ByRequest {
			f.Requests = Whole(v.Requests)
		}
	default:
		f.Blocked, f.Total = n, v.InFlight
		if v.ByRequest {
			f.Requests = Whole(v.Requests)
		}
		f.Goroutines = Whole(v.Goroutines)
	}
}

// Whole is x as an integer, at most what int64 holds: hostile profiles have
// counts whose sum does not.
func Whole(x float64) int64 {
	if x >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(math.Round(x))
}

func round1(x float64) float64 { return math.Round(x*10) / 10 }

// Of says "n of m requests", in v's measure.
func (v *View) Of(n float64, events int64) string {
	switch {
	case v.Unit == Contentions:
		return fmt.Sprintf("%.0f %% of the delay since the process began (%s in %s waits)", 100*v.Share(n), Seconds(n), Thousands(float64(events)))
	case v.Unit == Samples:
		return fmt.Sprintf("%.0f %% of the samples", 100*v.Share(n))
	case v.Kind == Waits:
		return fmt.Sprintf("on average %s of %s waiting %s", Thousands(round1(n)), Thousands(round1(v.InFlight)), v.Unit)
	}
	unit := string(v.Unit)
	if v.Unit == Goroutines {
		unit = "goroutines that are not idle"
	}
	return fmt.Sprintf("%s of %s %s", Thousands(n), Thousands(v.InFlight), unit)
}

// Plural is how many there are of something, in words: "1 request", "3 requests".
func Plural(n float64, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return Thousands(n) + " " + one + "s"
}

// Seconds prints a duration for people.
func Seconds(s float64) string {
	switch {
	case s >= 1:
		return Thousands(round1(s)) + " s"
	case s >= 0.1:
		return fmt.Sprintf("%.0f ms", s*1e3)
	case s >= 1e-3:
		return fmt.Sprintf("%.3g ms", s*1e3)
	}
	return fmt.Sprintf("%.3g µs", s*1e6)
}

// Thousands prints a number with separators, and one decimal where it has any.
func Thousands(x float64) string {
	s := strconv.FormatFloat(math.Abs(x), 'f', -1, 64)
	whole, frac, _ := strings.Cut(s, ".")
	var b strings.Builder
	for i, c := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(c)
	}
	if frac != "" {
		b.WriteByte('.')
		b.WriteString(frac[:min(len(frac), 1)])
	}
	if x < 0 {
		return "-" + b.String()
	}
	return b.String()
}

// Name fills in where f's goroutines wait: function, package and library of a site.
func (f *Finding) Name(site *stacks.Frame) {
	if site == nil {
		return
	}
	f.Function, f.Package, f.Library = site.Func, site.Package, site.Library()
}

// FirstCaller is the first frame above i outside the standard library and
// outside the site's own repository: whose code it is that asked.
func FirstCaller(frames []*stacks.Frame, i int) *stacks.Frame {
	if i < 0 || i >= len(frames) {
		return nil
	}
	site := frames[i]
	for _, f := range frames[i+1:] {
		if f.Std || f.Package == "" || f.Package == "runtime" {
			continue
		}
		if site.Std || f.Package != site.Package && stacks.Repository(f.Package) != stacks.Repository(site.Package) || site.Module == "" && f.Package != site.Package {
			return f
		}
	}
	return nil
}
