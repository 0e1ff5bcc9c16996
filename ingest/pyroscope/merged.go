package pyroscope

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/pprof/profile"

	"github.com/contend/contend/ingest"
	"github.com/contend/contend/ingest/stacks"
	"github.com/contend/contend/ingest/waits"
)

// fetch adds a process's merged profile of a sort to a bundle.
func (q *Querier) fetch(ctx context.Context, p *process, s *sort, types []profileType, query Query, b *ingest.Bundle) {
	if s.counted != "" && len(p.uploads) == 0 {
		return // said before
	}
	name := fmt.Sprintf("%s %s/%s/%s", q.name, p.job, p.instance, s.kind) // what several share, to a slash, reports say once
	m, err := q.profile(ctx, s.find(types, s.sample), p, s, query)
	switch {
	case err != nil:
		b.Failures = append(b.Failures, ingest.Failure{Name: name, Err: err})
		return
	case m == nil:
		b.Unused = append(b.Unused, ingest.Unused{Name: name, Reason: "it uploaded none that is not empty " + window(query) + "; set " + s.on})
		return
	case s.counted != "" && len(p.uploads) == 1:
		b.Unused = append(b.Unused, ingest.Unused{Name: name, Reason: "it uploaded once " + window(query) + ", which does not say over what time; try a longer --since"})
		return
	}
	m.TimeNanos = query.End.UnixNano()
	m.DurationNanos = 0
	if s.counted == "" {
		err = addGoroutines(b, name, m, p)
	} else {
		if counted := s.find(types, s.counted); counted != nil {
			// Without it there is less to say of each wait, and the rest holds.
			if n, err := q.profile(ctx, counted, p, s, query); err == nil && n != nil {
				m = joined(n, m)
			}
		}
		m.DurationNanos = p.covered().Nanoseconds()
		err = addWaits(b, name, m)
	}
	if err != nil {
		b.Failures = append(b.Failures, ingest.Failure{Name: name, Err: err})
		return
	}
	b.Instances = map[string]ingest.Instance{name: {Bundle: q.name, Job: p.job, Name: p.instance}}
}

// profile is a process's merged profile of a type, nil where there is none.
func (q *Querier) profile(ctx context.Context, t *profileType, p *process, s *sort, query Query) (*profile.Profile, error) {
	want := "a merged " + s.kind + " profile"
	data, err := q.mergeProfile(ctx, t.ID, p.selector, want, span{query.Start.UnixMilli(), query.End.UnixMilli()})
	if err != nil || data == nil {
		return nil, err
	}
	m, err := ingest.ParseProfile(data, want, tryServer)
	if err != nil || len(m.Sample) == 0 {
		return nil, err
	}
	return m, nil
}

// addGoroutines adds a sum of snapshots as their mean, or in shares.
func addGoroutines(b *ingest.Bundle, name string, m *profile.Profile, p *process) error {
	s, err := stacks.FromProfile(name, m)
	if err != nil {
		return err
	}
	if n := int64(len(p.uploads)); n > 0 {
		divide(s, n)
	} else {
		s.Summed = true
	}
	b.Snapshots = []*stacks.Snapshot{s}
	return nil
}

// divide makes a sum of n snapshots their mean. Counts are whole, so what is cut
// off one is carried over to the next: each is within one of its mean, and
// so is the sum of any that follow each other. Of stacks that are rare, some
// stand for all.
func divide(s *stacks.Snapshot, n int64) {
	var carry int64 // n-ths of a goroutine, less than one of them
	for _, g := range s.Groups {
		whole, rest := g.Count/n, g.Count%n+carry
		up := (rest + n/2) / n
		g.Count, carry = whole+up, rest-up*n
	}
	s.Loss.Read = s.Loss.Read/n + (s.Loss.Read%n+n/2)/n
	s.Groups = slices.DeleteFunc(s.Groups, func(g *stacks.Group) bool { return g.Count == 0 })
}

func addWaits(b *ingest.Bundle, name string, m *profile.Profile) error {
	w, err := waits.FromProfile(name, m)
	if err != nil {
		return err
	}
	b.Waits = []*waits.Profile{w}
	return nil
}

// joined is one profile with the values of two of the same stacks. A server
// answers with one type of samples at a time.
func joined(counts, delays *profile.Profile) *profile.Profile {
	kinds := []*profile.ValueType{counts.SampleType[0], delays.SampleType[0]}
	for i, p := range []*profile.Profile{counts, delays} {
		p.SampleType, p.PeriodType, p.DefaultSampleType = kinds, delays.PeriodType, ""
		for _, s := range p.Sample {
			value := s.Value[0]
			s.Value = make([]int64, len(kinds))
			s.Value[i] = value
		}
	}
	m, err := profile.Merge([]*profile.Profile{counts, delays})
	if err != nil { // they are of one kind by now
		return delays
	}
	m.TimeNanos = delays.TimeNanos
	return m
}

// describe says what the numbers of merged profiles are.
func (q *Querier) describe(all []process, query Query) []string {
	fewest, most := len(all[0].uploads), 0
	for _, p := range all {
		fewest, most = min(fewest, len(p.uploads)), max(most, len(p.uploads))
	}
	if most == 0 {
		return nil // said before, with the reason
	}
	number := count(most, "snapshot", "snapshots")
	if fewest < most {
		number = fmt.Sprintf("%d to %s", fewest, number)
	}
	return []string{fmt.Sprintf("%s: profiles are merged %s: goroutine counts are means of %s of each process, and waits are means over the time they cover; a spell that is shorter than the window looks smaller than it was", q.name, window(query), number)}
}
