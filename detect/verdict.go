package detect

import (
	"fmt"
	"sort"
	"strings"
)

// decide fills in the verdict, and sorts findings and what was ruled out.
// The verdict is, among the causes that hold what is in flight, the one with
// the largest material share; see outranks for the exceptions.
func decide(r *Report, passes []*Pass) {
	var all []Finding
	for _, p := range passes {
		r.RuledOut = append(r.RuledOut, p.ruledOut...)
		all = append(all, p.findings...)
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].share() > all[j].share() })
	lead, leadPass := -1.0, -1
	var cause string
	for i, p := range passes {
		c, share := causeOf(p)
		if c != "" && share > lead {
			cause, lead, leadPass = c, share, i
		}
	}
	if leadPass >= 0 {
		p := passes[leadPass]
		top := topFinding(p.findings, cause)
		r.Verdict = Verdict{Cause: cause, Confidence: top.Confidence, Summary: top.Summary, Job: top.Job}
		if len(passes) > 1 {
			affected := 0
			for _, q := range passes {
				if c, _ := causeOf(q); c == cause {
					affected++
				}
			}
			r.Verdict.Instances = &Affected{Affected: affected, Total: len(passes)}
			r.Verdict.Summary = p.Process + ": " + r.Verdict.Summary
		}
		sort.SliceStable(all, func(i, j int) bool { return all[i].leads(cause, p.Process) && !all[j].leads(cause, p.Process) })
		r.Budget = append(r.Budget, BudgetOf(p.Stacks, p.Earlier, p.Block)...)
	} else {
		r.Verdict.Summary = nothing(passes, all)
		for _, p := range passes {
			if p.Main() != nil {
				r.Budget = append(r.Budget, BudgetOf(p.Stacks, p.Earlier, p.Block)...)
				break
			}
		}
	}
	r.Findings = append(r.Findings, all...)
}

func (f *Finding) leads(cause, process string) bool {
	return f.Detector == cause && f.Process == process
}

func (f *Finding) share() float64 {
	if f.Total <= 0 {
		return 0
	}
	return f.Blocked / f.Total
}

// causeOf is the cause that holds most of what is in flight in one process,
// and its share; "" where none is material.
func causeOf(p *Pass) (string, float64) {
	sum := map[string]float64{}
	top := map[string]*Finding{}
	for i := range p.findings {
		f := &p.findings[i]
		if f.Role != Cause || f.Severity == Info {
			continue
		}
		sum[f.Detector] += f.weight()
		if t := top[f.Detector]; t == nil || f.weight() > t.weight() {
			top[f.Detector] = f
		}
	}
	var best string
	for d := range sum {
		if best == "" || outranks(top[d], top[best], sum[d], sum[best]) {
			best = d
		}
	}
	if best == "" {
		return "", 0
	}
	return best, min(sum[best], 1)
}

// weight is a finding's share of what is in flight, for the comparison of causes.
func (f *Finding) weight() float64 {
	if f.Weight > 0 {
		return f.Weight
	}
	return min(f.share(), 1)
}

// outranks reports whether cause a is the better verdict than b. A deadlock
// that holds requests is why their lock is waited for, so it goes before the
// lock's class; a suspicion does not. A leak that outgrows the requests in flight
// goes before what those few requests wait for, unless it is only a population
// and a lock or a full pool explains why nobody receives.
func outranks(a, b *Finding, shareA, shareB float64) bool {
	if ra, rb := a.Outranks, b.Outranks; ra != rb {
		return ra > rb
	}
	if shareA != shareB {
		return shareA > shareB
	}
	return a.Detector < b.Detector
}

func topFinding(fs []Finding, detector string) Finding {
	var best *Finding
	for i := range fs {
		if f := &fs[i]; f.Detector == detector && (best == nil || f.weight() > best.weight()) {
			best = f
		}
	}
	return *best
}

// nothing says that no cause was found, and what was looked at; or that
// nothing could be looked at.
func nothing(passes []*Pass, findings []Finding) string {
	var looked []string
	for _, p := range passes {
		v := p.Main()
		if v == nil {
			if p.Leaks != nil {
				looked = append(looked, "no leaked goroutine in the leak profile")
			}
			if p.Growth != nil {
				looked = append(looked, "a growth profile without growth of note; it is no snapshot")
			}
			continue
		}
		name := ""
		if p.Process != "" {
			name = p.Process + ": "
		}
		switch {
		case v.Kind == Waits && v.Cumulative:
			looked = append(looked, name+fmt.Sprintf("%s waits since the process began, none material", Thousands(float64(v.Events))))
		case v.Kind == Waits:
			looked = append(looked, name+fmt.Sprintf("on average %s waiting %s over %.1f s", Thousands(round1(v.InFlight)), v.Unit, v.Window.Seconds()))
		case v.ByRequest:
			looked = append(looked, name+fmt.Sprintf("%s in flight among %s goroutines", plural(v.Requests, "request"), Thousands(v.Goroutines)))
		default:
			looked = append(looked, name+fmt.Sprintf("no requests in flight, %s of %s goroutines not idle", Thousands(v.InFlight), Thousands(v.Goroutines)))
		}
	}
	if len(looked) == 0 {
		return "could not look: no input that a detector can work from was read"
	}
	if len(findings) > 0 {
		return "nothing found that holds a material share: " + strings.Join(looked, "; ")
	}
	return "nothing found: " + strings.Join(looked, "; ")
}

func plural(n float64, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return Thousands(n) + " " + one + "s"
}
