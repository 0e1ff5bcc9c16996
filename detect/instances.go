package detect

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/contend/contend/ingest/stacks"
)

// roundGap is how far apart the snapshots of two instances are at most, one
// after the other, that were taken in one round: a goroutine profile takes ms,
// and rounds are more seconds apart, which whoever takes them sees to.
const roundGap = 2 * time.Second

// taken is when the snapshot was taken that a process's numbers are of; zero
// where that is not known.
func (p *Pass) taken() time.Time {
	if v := p.Main(); v != nil && v.Snapshot != nil {
		return v.Snapshot.Taken
	}
	return time.Time{}
}

// round is the instances of a process's job that were looked at in one round
// with it, itself among them. Others had ended by then, or came later. A process
// whose job is not known is alone.
func round(p *Pass, passes []*Pass) []*Pass {
	if p.instance == "" {
		return []*Pass{p}
	}
	var job []*Pass
	for _, q := range passes {
		if q.instance != "" && q.job == p.job {
			job = append(job, q)
		}
	}
	byTime := slices.SortedStableFunc(slices.Values(job), func(a, b *Pass) int { return a.taken().Compare(b.taken()) })
	from := slices.Index(byTime, p)
	to := from + 1
	for from > 0 && byTime[from].taken().Sub(byTime[from-1].taken()) <= roundGap {
		from--
	}
	for to < len(byTime) && byTime[to].taken().Sub(byTime[to-1].taken()) <= roundGap {
		to++
	}
	in := byTime[from:to]
	return slices.DeleteFunc(job, func(q *Pass) bool { return !slices.Contains(in, q) })
}

// latestRound is the last round in which instances of p's job were looked at.
func latestRound(p *Pass, passes []*Pass) []*Pass {
	for _, q := range passes {
		if p.instance != "" && q.instance != "" && q.job == p.job && q.Main() != nil && q.taken().After(p.taken()) {
			p = q
		}
	}
	return round(p, passes)
}

// sharing are those of a round whose cause is the same, and whose numbers are of
// the same unit.
func sharing(cause string, lead *Pass, in []*Pass) []*Pass {
	var out []*Pass
	for _, p := range in {
		if p == lead || causeOf(p) == cause && sameUnit(p, lead) {
			out = append(out, p)
		}
	}
	return out
}

func sameUnit(p, q *Pass) bool {
	a, b := p.Main(), q.Main()
	return a != nil && b != nil && a.Unit == b.Unit
}

// instancesOf names the instances of processes, in order.
func instancesOf(in []*Pass) []string {
	var names []string
	for _, p := range in {
		if p.instance != "" {
			names = append(names, p.instance)
		}
	}
	slices.Sort(names)
	return names
}

// jobSite is the place of a finding in an instance of a job: the same one in another instance
// is about the same code.
type jobSite struct {
	job, detector, wait, site, charged string
	unit                               Unit
	nth                                int // of those in its instance, the largest first: locks of one type are several
}

func (f *Finding) jobSite() jobSite {
	s := jobSite{job: f.Job, detector: f.Detector, wait: f.Wait, site: f.Function, charged: f.Charged, unit: f.Unit}
	switch stacks.Kind(f.Wait) {
	case stacks.Lock, stacks.RLock:
		// Most wait in one method of the lock's owner here and in another there.
		s.wait = string(stacks.Lock)
		if pkg, method, ok := strings.Cut(f.Function, ".("); ok {
			receiver, _, _ := strings.Cut(method, ")")
			s.site = pkg + ".(" + receiver + ")"
		}
	}
	return s
}

// joinInstances makes one finding of what instances of one job show alike, and
// leaves all others as they are. lead, which may be nil, is the verdict's process.
// Findings are sorted, the largest first.
func joinInstances(all []Finding, lead *Pass, passes []*Pass) []Finding {
	in := map[string][]*Pass{} // by job, the round that is counted
	by := map[string]*Pass{}   // by name of the process
	for _, p := range passes {
		if p.instance == "" {
			continue
		}
		by[p.Process] = p
		if in[p.job] != nil {
			continue
		}
		if lead != nil && lead.instance != "" && lead.job == p.job {
			in[p.job] = round(lead, passes)
		} else {
			in[p.job] = latestRound(p, passes)
		}
	}
	nth := map[jobSite]map[string]int{} // by place and process
	at := map[jobSite]int{}             // in groups
	var groups [][]Finding
	for _, f := range all {
		p := by[f.Process]
		if p == nil || f.Alert != "" {
			groups = append(groups, []Finding{f})
			continue
		}
		k := f.jobSite()
		if nth[k] == nil {
			nth[k] = map[string]int{}
		}
		first := k
		k.nth = nth[first][f.Process]
		nth[first][f.Process]++
		i, ok := at[k]
		if !ok {
			i = len(groups)
			at[k] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], f)
	}
	out := all[:0:0]
	for _, g := range groups {
		if len(g) == 1 {
			out = append(out, g[0])
			continue
		}
		if g[0].Headroom != nil {
			out = append(out, joinForecasts(g, len(in[g[0].Job])))
			continue
		}
		out = append(out, joinFindings(g, by, in[g[0].Job]))
	}
	return out
}

// joinFindings joins findings of instances, whose first is the largest. Numbers
// are sums over one round of profiles: those of another moment are named apart.
func joinFindings(g []Finding, by map[string]*Pass, round []*Pass) Finding {
	var now, other []Finding
	for _, f := range g {
		if slices.Contains(round, by[f.Process]) {
			now = append(now, f)
		} else {
			other = append(other, f)
		}
	}
	of := len(round)
	if len(now) == 0 {
		// All are of instances that had ended.
		now, other = other, nil
		of = len(now)
	}
	f := now[0]
	f.Instances = nil
	worst := f.Process
	evidence := slices.Clone(f.Evidence)
	f.Blocked, f.Total, f.RequestsBlocked, f.Requests, f.Goroutines = 0, 0, 0, 0, 0
	f.Warnings = nil
	f.Evidence = nil
	for _, one := range now {
		f.Instances = append(f.Instances, one.Instances...)
		f.Blocked += one.Blocked
		f.Total += one.Total
		f.RequestsBlocked = Whole(float64(f.RequestsBlocked) + float64(one.RequestsBlocked))
		f.Requests = Whole(float64(f.Requests) + float64(one.Requests))
		f.Goroutines = Whole(float64(f.Goroutines) + float64(one.Goroutines))
		f.Evidence = append(f.Evidence, Evidence{Text: one.Process + ": " + one.count(), Input: by[one.Process].Main().Name, Count: one.Blocked})
		f.warn(one.Warnings)
		if slices.Index(Severities, one.Severity) < slices.Index(Severities, f.Severity) {
			f.Severity = one.Severity
		}
		// The stronger of both: what one of them proves of the lock, the others bear out.
		if Weaker(f.Confidence, one.Confidence) == f.Confidence {
			f.Confidence = one.Confidence
		}
	}
	for _, one := range other {
		p := by[one.Process]
		when := "at another moment"
		if t := p.taken(); !t.IsZero() {
			when = "at " + t.UTC().Format("15:04:05 UTC")
		}
		f.Evidence = append(f.Evidence, Evidence{Text: one.Process + ", " + when + ": " + one.count(), Input: p.Main().Name, Count: one.Blocked})
		f.warn(one.Warnings)
	}
	slices.Sort(f.Instances)
	f.Evidence = append(evidence, f.Evidence...)
	if len(now) == 1 {
		return f // the others are of another moment
	}
	f.Process, f.Lock = "", "" // an address is of one process
	f.Summary = fmt.Sprintf("%d of %d instances of %s, %s; in %s: %s", len(now), of, f.Job, f.count(), worst, f.Summary)
	return f
}

// quietInstances says what was looked at in instances of a job in one round.
func quietInstances(in []*Pass) string {
	requests, goroutines := 0.0, 0.0
	for _, p := range in {
		if v := p.Stacks; v != nil {
			goroutines += v.Goroutines
			if v.ByRequest {
				requests += v.Requests
			}
		}
	}
	return fmt.Sprintf("%s: %s in flight among %s goroutines of %s", in[0].job, Plural(requests, "request"), Thousands(goroutines), Plural(float64(len(in)), "instance"))
}

// count is how many a finding holds, in words.
func (f *Finding) count() string {
	switch {
	case f.Requests > 0 && f.RequestsBlocked > 0:
		return fmt.Sprintf("%s of %s requests", Thousands(float64(f.RequestsBlocked)), Thousands(float64(f.Requests)))
	case f.Total > 0:
		return fmt.Sprintf("%s of %s %s", Thousands(f.Blocked), Thousands(f.Total), f.Unit)
	case f.Blocked > 0:
		return fmt.Sprintf("%s %s", Thousands(f.Blocked), f.Unit)
	}
	return f.Summary
}

// warn adds warnings that are not there yet.
func (f *Finding) warn(warnings []string) {
	for _, w := range warnings {
		if !slices.Contains(f.Warnings, w) {
			f.Warnings = append(f.Warnings, w)
		}
	}
}

// addBudgets adds up the budgets of several processes. A measure that could not
// be taken of one is none of their sum.
func addBudgets(all [][]Share) []Share {
	sum := all[0]
	for _, other := range all[1:] {
		var out []Share
		for _, s := range sum {
			i := slices.IndexFunc(other, func(o Share) bool { return o.Where == s.Where })
			if i < 0 {
				continue
			}
			o := other[i]
			s.Now, s.Before = s.Now.plus(o.Now), s.Before.plus(o.Before)
			if s.Now != (Measures{}) || s.Before != (Measures{}) {
				out = append(out, s)
			}
		}
		sum = out
	}
	return sum
}

func (m Measures) plus(o Measures) Measures {
	add := func(a, b *float64) *float64 {
		if a == nil || b == nil {
			return nil
		}
		return number(*a + *b)
	}
	return Measures{Series: add(m.Series, o.Series), Stacks: add(m.Stacks, o.Stacks), Waits: add(m.Waits, o.Waits)}
}
