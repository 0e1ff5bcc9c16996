package detect

import (
	"fmt"
	"slices"
	"sort"
	"strings"
)

// decide fills in the verdict, and sorts findings and what was ruled out.
// The verdict is, among the causes that hold what is in flight, the one with
// the largest material share; see outranks for the exceptions.
func decide(r *Report, passes []*Pass, detectors []*Detector) {
	var all []Finding
	for _, p := range passes {
		r.RuledOut = append(r.RuledOut, p.ruledOut...)
		all = append(all, p.findings...)
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].weight() > all[j].weight() })
	lead, cause := leadOf(passes)
	job := jobOf(passes, lead)
	if lead != nil {
		p := lead
		top := topFinding(p.findings, cause)
		r.Verdict = Verdict{Cause: cause, Confidence: top.Confidence, Summary: top.Summary, Job: top.Job}
		if job != nil {
			r.Verdict.Job = job.Series.Job
		}
		processes := slices.DeleteFunc(slices.Clone(passes), func(p *Pass) bool { return p.Series != nil })
		of := []*Pass{p} // the processes that the budget is of
		switch {
		case p.Series != nil:
			r.Verdict.Instances = &top.affected
			if jobsOf(passes) > 1 {
				r.Verdict.Summary = p.Series.Job + ": " + r.Verdict.Summary
			}
		case p.instance != "":
			in := round(p, passes)
			of = sharing(cause, p, in)
			r.Verdict.Instances = &Affected{Affected: len(of), Total: len(in)}
			if p.Process != "" {
				r.Verdict.Summary = p.Process + ": " + r.Verdict.Summary
			}
		case len(processes) > 1:
			affected := 0
			for _, q := range processes {
				if causeOf(q) == cause {
					affected++
				}
			}
			r.Verdict.Instances = &Affected{Affected: affected, Total: len(processes)}
			r.Verdict.Summary = p.Process + ": " + r.Verdict.Summary
		}
		sort.SliceStable(all, func(i, j int) bool { return all[i].leads(cause, p) && !all[j].leads(cause, p) })
		r.budget(p, of)
		if n := jobsOf(passes); job == nil && n > 1 {
			r.Notes = append(r.Notes, fmt.Sprintf("the process of the profiles is an instance of none of the %d jobs in the series, so that they tell no story of it; choose its job with --selector", n))
		}
		foldDeadlocks(all)
		all = joinInstances(all, p, passes)
		if i := slices.IndexFunc(all, func(f Finding) bool { return f.Process == "" && f.Detector == cause && f.leads(cause, p) }); i >= 0 && p.Process != "" {
			r.Verdict.Confidence, r.Verdict.Summary = all[i].Confidence, all[i].Summary
		}
		r.tell(all, lead, of, job, findDetector(detectors, cause))
		if p.Series != nil && len(processes) > 0 {
			r.Warnings = append(r.Warnings, fmt.Sprintf("the profiles do not show it: they are of another moment than the %s in the series, or of another instance", cause))
		}
	} else {
		foldDeadlocks(all)
		all = joinInstances(all, nil, passes)
		of := r.budgetOfQuiet(passes, job)
		r.Verdict.Summary = nothing(passes, all)
		if job != nil && len(job.findings) > 0 {
			r.Verdict.Job = job.Series.Job
			if jobsOf(passes) > 1 {
				r.Verdict.Summary = job.Series.Job + ": " + r.Verdict.Summary
			}
		}
		r.tell(all, nil, of, job, &Detector{})
		r.Verdict.Summary += unexplained(r, passes)
		r.Verdict.Summary += unread(passes)
		for _, p := range passes {
			if p.Series == nil {
				continue
			}
			for _, hole := range p.Series.gaps {
				r.Verdict.Summary += "; no all-clear: " + hole
			}
		}
	}
	r.Findings = append(r.Findings, all...)
}

// unread says that much of a snapshot is missing, which makes nothing found no all-clear.
func unread(passes []*Pass) string {
	var lost, read int64
	for _, p := range passes {
		if v := p.Main(); v != nil && v.Snapshot != nil {
			lost, read = lost+v.Snapshot.Loss.Lost, read+v.Snapshot.Loss.Read
		}
	}
	if lost < 1 || float64(lost) < MaterialShare*float64(lost+read) {
		return ""
	}
	return fmt.Sprintf("; but %s of %s goroutines could not be read, so this is no all-clear", Thousands(float64(lost)), Thousands(float64(lost+read)))
}

// unexplained says that the stacks of many do not tell what they wait for, and
// where most of them are: nothing found is not nothing there.
func unexplained(r *Report, passes []*Pass) string {
	n := 0.0
	for _, p := range passes {
		if v := p.Main(); v != nil && v.Kind == Stacks && v.Share(v.atRest) >= MaterialShare && v.atRest >= MaterialCount {
			n += v.atRest
		}
	}
	switch {
	case n == 0:
		return ""
	case len(r.Unexplained) > 0:
		return fmt.Sprintf("; what %s of them wait for, their stacks do not tell: %s", Thousands(n), r.Unexplained[0].Text)
	}
	return fmt.Sprintf("; what %s of them wait for, their stacks do not tell", Thousands(n))
}

// budgetOfQuiet fills in the budget where no cause was found, and returns the
// processes whose it is: the first that has one, and the instances of its job
// beside it. Of a job in trouble the series tell the budget; a profile that shows
// none of it is of another moment.
func (r *Report) budgetOfQuiet(passes []*Pass, job *Pass) []*Pass {
	if job != nil && len(job.findings) > 0 {
		return nil
	}
	for _, p := range passes {
		if p.Main() == nil || p.instance != "" && job != nil && p.job != job.Series.Job {
			continue // requests of one job and series of another are no two measures of one thing
		}
		in := latestRound(p, passes)
		first := in[max(0, slices.IndexFunc(in, func(q *Pass) bool { return q.Main() != nil && q.Main().ByRequest }))]
		of := slices.DeleteFunc(in, func(q *Pass) bool { return !sameUnit(q, first) })
		r.budget(first, of)
		return of
	}
	return nil
}

// budget fills in where the requests of processes are, and which sites of the
// first, p, the budget cannot place where those are a material part.
func (r *Report) budget(p *Pass, of []*Pass) {
	v := p.Main()
	if v == nil {
		return // a leak profile or a difference: nothing is in flight in it
	}
	var all [][]Share
	for _, q := range of {
		all = append(all, BudgetOf(q.Stacks, q.Earlier, q.Block))
	}
	r.Budget = append(r.Budget, addBudgets(all)...)
	r.BudgetUnit = v.Unit
	if r.drawn {
		r.Tree = treeOf(of)
	}
	if v.Kind != Stacks || v.Share(v.atRest) < MaterialShare || v.atRest < MaterialCount {
		return
	}
	const most = 3 // the largest tell
	for _, s := range v.Sites(func(c *Crowd) bool { return place(c.Wait.Kind) == PlaceUnexplained && !c.Telemetry.Is }) {
		if len(r.Unexplained) == most || v.Share(s.N) < MentionShare {
			break
		}
		r.Unexplained = append(r.Unexplained, Evidence{Text: fmt.Sprintf("%s %s in %s%s", Thousands(s.N), kindWords(s.Kind), s.Site.Func, calledFrom(s.Crowds[0])), Input: v.Name, Count: s.N})
	}
}

// worse reports whether cause c of p is the graver of two processes' causes:
// what outranks first, then what is surer, then what holds more.
func (p *Pass) worse(c string, q *Pass, other string) bool {
	a, b := topFinding(p.findings, c), topFinding(q.findings, other)
	if a.Outranks != b.Outranks {
		return a.Outranks > b.Outranks
	}
	if a.Confidence != b.Confidence {
		return Weaker(a.Confidence, b.Confidence) == b.Confidence
	}
	return a.Blocked > b.Blocked
}

// foldDeadlocks takes out of the findings of a lock what a proven deadlock on
// it has told already, and its advice to look for a holder that there is none of.
func foldDeadlocks(all []Finding) {
	for i := range all {
		d := &all[i]
		if d.Detector != "deadlock" || d.Outranks < 1 {
			continue
		}
		for j := range all {
			f := &all[j]
			if i == j || f.Process != d.Process || f.Lock == "" || f.Lock != d.Lock && !slices.Contains(d.Locks, f.Lock) && f.Function != d.Function {
				continue
			}
			f.Severity, f.Holder, f.Holds, f.Next = Info, nil, "", nil
			f.Summary += "; see the deadlock: this is its queue"
		}
	}
}

func findDetector(detectors []*Detector, name string) *Detector {
	return detectors[slices.IndexFunc(detectors, func(d *Detector) bool { return d.Name == name })]
}

// leadOf is the process or job whose cause is the verdict, and that cause.
// Profiles go before series: they say where. Series that found another cause
// than the profiles did are of the same moment or are not; a warning says so.
func leadOf(passes []*Pass) (lead *Pass, cause string) {
	for _, series := range [...]bool{false, true} {
		for _, p := range passes {
			if (p.Series != nil) != series {
				continue
			}
			c := causeOf(p)
			if c != "" && (lead == nil || p.worse(c, lead, cause)) {
				cause, lead = c, p
			}
		}
		if lead != nil {
			return lead, cause
		}
	}
	return nil, ""
}

// leads reports whether f is of the verdict's cause and process or job.
func (f *Finding) leads(cause string, p *Pass) bool {
	return f.Detector == cause && f.of(p) && (p.Series == nil) == (f.Alert == "") && (p.Series == nil || f.Job == p.Series.Job)
}

// of reports whether f is of a process, or of several with that one among them.
func (f *Finding) of(p *Pass) bool {
	return f.Process == p.Process || f.Process == "" && p.instance != "" && f.Job == p.job && slices.Contains(f.Instances, p.instance)
}

func (f *Finding) share() float64 {
	if f.Total <= 0 {
		return 0
	}
	return f.Blocked / f.Total
}

// causeOf is the cause that holds most of what is in flight in one process; ""
// where none is material.
func causeOf(p *Pass) string {
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
	return best
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
// goes before what those few requests wait for.
func outranks(a, b *Finding, shareA, shareB float64) bool {
	if ra, rb := a.Outranks, b.Outranks; ra != rb {
		return ra > rb
	}
	if d := shareA - shareB; d > equalShare || d < -equalShare {
		return d > 0
	}
	// As many requests wait for an answer as wait for something here: where a
	// process calls itself, the answer is what the others are late with.
	if da, db := a.Detector == "downstream", b.Detector == "downstream"; da != db {
		return db
	}
	return a.Detector < b.Detector
}

// equalShare is how near two shares are equal: one request in a hundred comes
// or goes between two stacks of a dump.
const equalShare = 0.01

func topFinding(fs []Finding, detector string) Finding {
	var best *Finding
	for i := range fs {
		f := &fs[i]
		if f.Detector != detector {
			continue
		}
		if best == nil || best.Severity == Info && f.Severity != Info || (best.Severity == Info) == (f.Severity == Info) && f.weight() > best.weight() {
			best = f
		}
	}
	return *best
}

// nothing says that no cause was found, and what was looked at; or that
// nothing could be looked at.
func nothing(passes []*Pass, findings []Finding) string {
	var looked []string
	jobs := map[string]bool{} // whose instances were told of together
	for _, p := range passes {
		if p.Series != nil {
			looked = append(looked, p.Series.quiet())
			continue
		}
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
		case v.Unit == Samples:
			looked = append(looked, name+fmt.Sprintf("shares of goroutines in %s, none material", v.Name))
		case v.Kind == Waits:
			looked = append(looked, name+fmt.Sprintf("on average %s waiting %s over %.1f s", Thousands(round1(v.InFlight)), v.Unit, v.Window.Seconds()))
		case p.instance != "" && p.Process != "" && v.Snapshot.Crash == "":
			if !jobs[p.job] {
				jobs[p.job] = true
				looked = append(looked, quietInstances(latestRound(p, passes)))
			}
		case v.Snapshot.Crash != "":
			looked = append(looked, name+fmt.Sprintf("the process died of %q, and no wait of its %s explains it", v.Snapshot.Crash, Plural(v.Goroutines, "goroutine")))
		case v.ByRequest:
			looked = append(looked, name+fmt.Sprintf("%s in flight among %s goroutines", Plural(v.Requests, "request"), Thousands(v.Goroutines)))
		default:
			looked = append(looked, name+fmt.Sprintf("no requests in flight, %s of %s goroutines not idle", Thousands(v.InFlight), Thousands(v.Goroutines)))
		}
	}
	if len(looked) == 0 {
		return "could not look: no input that a detector can work from was read"
	}
	if only := passes[0].Options.Detectors; len(only) > 0 {
		return fmt.Sprintf("nothing found by %s, which alone looked: %s", strings.Join(only, " and "), strings.Join(looked, "; "))
	}
	if held := symptomsOf(passes, findings); held != "" {
		return held
	}
	if len(findings) > 0 {
		return "nothing found that holds a material share: " + strings.Join(looked, "; ")
	}
	return "nothing found: " + strings.Join(looked, "; ")
}
