package pyroscope

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/contend/contend/ingest"
	"github.com/contend/contend/ingest/series"
)

// Query is which profiles are looked at.
type Query struct {
	Selector   string // matchers of labels, with braces or without; "" is all services
	Start, End time.Time
}

const (
	// Each process takes up to five requests. A sick process has the most
	// goroutines, so those are the ones that are kept.
	maxProcesses = 16
	// What runs on a server that others look at during an incident too.
	maxRequests = 4
	// Nobody uploads ten times a second, so a step of this length has one upload.
	// Longer windows than 2.8 h have longer steps: no server counts for ever.
	shortestStep = 100 * time.Millisecond
	maxSteps     = 100_000
)

// serviceLabel is what Pyroscope names the application by.
const serviceLabel = "service_name"

// instanceLabels tell the processes of a service apart, the surest first:
// Prometheus', OpenTelemetry's, Kubernetes', and what users of pyroscope-go set.
var instanceLabels = []string{"instance", "service_instance_id", "service.instance.id", "pod", "hostname", "host"}

// sort is a sort of profile that is of use here, by the names of its types on a server.
type sort struct {
	kind    string   // as reports call it
	names   []string // of the type: pyroscope-go's and what Alloy scrapes
	sample  string   // type of the samples that are read
	counted string   // type of samples that number the waits; "" where sample does
	on      string   // how a process switches it on
}

var sorts = []sort{
	{"goroutine", []string{"goroutines", "goroutine"}, "goroutine", "", "pyroscope.ProfileGoroutines among ProfileTypes"},
	{"block", []string{"block"}, "delay", "contentions", "pyroscope.ProfileBlockDuration among ProfileTypes, and runtime.SetBlockProfileRate"},
	{"mutex", []string{"mutex"}, "delay", "contentions", "pyroscope.ProfileMutexDuration among ProfileTypes, and runtime.SetMutexProfileFraction"},
}

// find is the type of a sort with the given samples, nil where there is none.
func (s *sort) find(types []profileType, sample string) *profileType {
	for _, name := range s.names {
		for i, t := range types {
			if t.Name == name && t.SampleType == sample {
				return &types[i]
			}
		}
	}
	return nil
}

// process is one process that uploaded, as far as labels tell.
type process struct {
	job, instance string
	selector      string
	several       bool        // it is all that match: no label tells them apart
	uploads       []time.Time // when; empty where the server does not say
	size          float64     // mean of what it uploaded, to rank it
}

// covered is how long the uploads cover, 0 where that is not known. Each is of
// the time since the one before it, so the usual gap is added to the time
// between the first and the last. A gap of more than two usual ones is a time
// of which nothing came, and counts as a usual one; those between the uploads
// of several processes have no usual length.
func (p *process) covered() time.Duration {
	n := len(p.uploads)
	if n < 2 {
		return 0
	}
	gaps := make([]time.Duration, n-1)
	for i := range gaps {
		gaps[i] = p.uploads[i+1].Sub(p.uploads[i])
	}
	slices.Sort(gaps)
	usual := gaps[len(gaps)/2]
	sum := usual
	for _, gap := range gaps {
		if gap > 2*usual && !p.several {
			gap = usual
		}
		sum += gap
	}
	return sum
}

// Load asks for the goroutine, block and mutex profiles of each process that
// matches, merged over the window by the server. What could not be read is a
// Failure of the bundle, and what the server does not have is among its Unused;
// neither loses the rest.
//
// A merged goroutine profile is the sum of its snapshots, so its counts are
// divided by their number: they are means over the window. Where the server does
// not say how many there were, the snapshot is Summed. Merged block and mutex
// profiles are differences over the time that the uploads cover, and are left out
// where that is not known: taken for longer than it is, it makes few of many.
func (q *Querier) Load(ctx context.Context, query Query) *ingest.Bundle {
	b := &ingest.Bundle{Instances: map[string]ingest.Instance{}}
	if err := q.load(ctx, query, b); err != nil {
		b.Failures = append(b.Failures, ingest.Failure{Name: q.name, Err: err})
	}
	return b
}

func (q *Querier) load(ctx context.Context, query Query, b *ingest.Bundle) error {
	w := span{query.Start.UnixMilli(), query.End.UnixMilli()}
	if err := series.CheckSelector(query.Selector); err != nil {
		return err
	}
	selector := braces(query.Selector)
	q.progress("asking " + q.name + " for its types of profiles")
	types, err := q.profileTypes(ctx, w)
	if err != nil {
		return err
	}
	has := "no profile of any type " + window(query)
	if len(types) > 0 {
		has = "only " + strings.Join(typeIDs(types), ", ")
	}
	var useful []*sort
	for i := range sorts {
		s := &sorts[i]
		if s.find(types, s.sample) != nil {
			useful = append(useful, s)
			continue
		}
		b.Unused = append(b.Unused, ingest.Unused{Name: q.name + " " + s.kind, Reason: fmt.Sprintf("the server has %s; to have %s profiles, set %s", has, s.kind, s.on)})
	}
	if len(useful) == 0 {
		b.Unused = nil // the error says it
		return fmt.Errorf("expected goroutine, block or mutex profiles, saw %s; try a longer --since, the tenant as X-Scope-OrgID under http_headers in --http.config.file, or switch them on in the service: ProfileTypes of pyroscope-go", has)
	}
	all, err := q.processes(ctx, useful[0].find(types, useful[0].sample).ID, selector, query, b)
	if err != nil {
		return err
	}

	b.Warnings = append(b.Warnings, q.describe(all, query)...)
	q.progress(fmt.Sprintf("fetching merged profiles of %s from %s", count(len(all), "process", "processes"), q.name))
	parts := make([]ingest.Bundle, len(all)*len(useful))
	slots := make(chan struct{}, maxRequests)
	var wg sync.WaitGroup
	for i := range parts {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			q.fetch(ctx, &all[i/len(useful)], useful[i%len(useful)], types, query, &parts[i])
		})
	}
	wg.Wait()
	for i := range parts {
		b.Add(&parts[i])
	}
	return nil
}

// processes finds which processes uploaded profiles of a type, and when.
func (q *Querier) processes(ctx context.Context, typeID, selector string, query Query, b *ingest.Bundle) ([]process, error) {
	w := span{query.Start.UnixMilli(), query.End.UnixMilli()}
	known, err := q.labelNames(ctx, selector, w)
	if err != nil {
		return nil, err
	}
	by := []string{serviceLabel}
	for _, name := range instanceLabels {
		if slices.Contains(known, name) {
			by = append(by, name)
			break
		}
	}
	step := max(shortestStep, query.End.Sub(query.Start)/maxSteps)
	found, err := q.selectSeries(ctx, typeID, selector, w, by, step)
	if err != nil && ctx.Err() == nil {
		// One process of all that matches, and shares of it.
		b.Warnings = append(b.Warnings, fmt.Sprintf("%s: how many snapshots were merged, and over what time, is not known, so that goroutines are given in shares and waits not at all: %v", q.name, err))
		return []process{{instance: selector, selector: selector, several: true}}, nil
	}
	if err != nil {
		return nil, err
	}
	var all []process
	for _, s := range found {
		all = append(all, newProcess(&s, selector, by))
	}
	if len(all) == 0 {
		return nil, q.noProfiles(ctx, selector, query)
	}
	if len(by) == 1 {
		b.Warnings = append(b.Warnings, fmt.Sprintf("%s: no label tells processes apart (none of %s): goroutine counts are means of one of all that match %s, waits are those of all together; set the tag instance in pyroscope-go", q.name, strings.Join(instanceLabels, ", "), selector))
	}
	slices.SortFunc(all, func(x, y process) int {
		return cmp.Or(cmp.Compare(y.size, x.size), cmp.Compare(x.selector, y.selector))
	})
	if len(all) > maxProcesses {
		b.Warnings = append(b.Warnings, fmt.Sprintf("%s: of %d processes that match %s, the %d with the most goroutines are looked at; a narrower --selector names others", q.name, len(all), selector, maxProcesses))
		all = all[:maxProcesses]
	}
	slices.SortFunc(all, func(x, y process) int { return cmp.Compare(x.selector, y.selector) })
	return all, nil
}

// newProcess is a process by what it uploaded and the labels that tell it apart.
func newProcess(s *sums, selector string, by []string) process {
	p := process{job: s.label(serviceLabel), selector: selector, several: len(by) == 1}
	for _, name := range by {
		value := s.label(name)
		// In ASCII: the mark that JSON has for bytes of no character is none to a parser of selectors.
		p.selector = braces(p.selector, name+"="+strconv.QuoteToASCII(value))
		if name != serviceLabel {
			p.instance = value
		}
	}
	p.instance = cmp.Or(p.instance, p.selector)
	for _, point := range s.Points {
		p.uploads = append(p.uploads, time.UnixMilli(int64(point.Timestamp)))
		p.size += float64(point.Value) / float64(len(s.Points))
	}
	slices.SortFunc(p.uploads, time.Time.Compare)
	return p
}

// braces makes one selector of matchers with braces or without.
func braces(matchers ...string) string {
	var set []string
	for _, m := range matchers {
		m = strings.TrimSpace(m)
		if strings.HasPrefix(m, "{") && strings.HasSuffix(m, "}") {
			m = m[1 : len(m)-1]
		}
		if m = strings.Trim(m, ", "); m != "" {
			set = append(set, m)
		}
	}
	return "{" + strings.Join(set, ",") + "}"
}

// noProfiles says why nothing matches.
func (q *Querier) noProfiles(ctx context.Context, selector string, query Query) error {
	err := fmt.Errorf("no profile matches %s %s", selector, window(query))
	services, _ := q.labelValues(ctx, serviceLabel, span{query.Start.UnixMilli(), query.End.UnixMilli()}) // only for the hint
	if len(services) == 0 {
		return fmt.Errorf("%w; try a longer --since", err)
	}
	const most = 5
	services = series.Nearest(selector, services)
	return fmt.Errorf("%w; try a longer --since, or another --selector: %s is one of %s", err, serviceLabel, strings.Join(services[:min(most, len(services))], ", "))
}

// typeIDs are some types as a server names them, for messages.
func typeIDs(types []profileType) []string {
	const most = 12 // a Go service has ten
	var ids []string
	for _, t := range types[:min(most, len(types))] {
		ids = append(ids, t.ID)
	}
	slices.Sort(ids)
	if more := len(types) - most; more > 0 {
		ids = append(ids, fmt.Sprintf("and %d more", more))
	}
	return ids
}

// window is the time of a query in words.
func window(q Query) string {
	return fmt.Sprintf("from %s to %s", q.Start.UTC().Format(time.RFC3339), q.End.UTC().Format(time.RFC3339))
}

func count(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, several)
}
