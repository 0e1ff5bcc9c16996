package rules

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/ingest/series"
)

// CheckSchema is the schema of Checked as JSON.
const CheckSchema = "contend.check/v1"

// State is what a rule has to say at a moment.
type State string

const (
	Holding   State = "holds"          // of an alert: its condition does
	False     State = "false"          // of an alert: what it needs is there, and its condition does not hold
	HasValue  State = "has a value"    // of a record
	NoValue   State = "no value now"   // of a record: what it needs is there
	NoHistory State = "no history yet" // of a record: what it reads has a value, and has not had one for long enough
	NoSeries  State = "no such series" // it can have no value
)

// Checked is a group of rules as a server's series have it.
type Checked struct {
	Schema  string          `json:"schema"`  // CheckSchema
	Server  string          `json:"server"`  // without credentials; Check leaves it to the caller
	At      time.Time       `json:"at"`      // the moment that all is of
	Alerts  []CheckedAlert  `json:"alerts"`  // those that page first
	Records []CheckedRecord `json:"records"` // in the group's order
	Missing []MissingSignal `json:"missing"` // those that alerts need first, in the order of the alerts
	Doubts  []Doubt         `json:"doubts"`
}

// CheckedAlert is an alert.
type CheckedAlert struct {
	Alert     string     `json:"alert"`
	Severity  string     `json:"severity"`
	State     State      `json:"state"`
	Instances int        `json:"instances,omitempty"` // for which the condition holds
	Reads     []Selected `json:"reads"`
	// Needs are, of NoSeries, the smallest sets of missing signals with any of
	// which it could fire.
	Needs [][]string `json:"needs,omitempty"`
	// Waits are, of False, what has no value now and without which it cannot hold.
	Waits []Wait `json:"waits,omitempty"`
}

// Wait is a canonical series without a value.
type Wait struct {
	Record string `json:"record"`
	State  State  `json:"state"`           // NoValue or NoHistory
	Takes  string `json:"takes,omitempty"` // see CheckedRecord
}

// CheckedRecord is a canonical series: a signal's, or one made of others.
type CheckedRecord struct {
	Record    string     `json:"record"`
	State     State      `json:"state"`
	Instances int        `json:"instances,omitempty"` // with a value; jobs, where it is by job
	Reads     []Selected `json:"reads"`
	Takes     string     `json:"takes,omitempty"` // of NoHistory: how long what it reads must have had values, as 16m
	Why       string     `json:"why,omitempty"`   // of a signal with metrics and without a value
}

// Selected is a metric and how many of its series have a value at the moment.
type Selected struct {
	Metric string `json:"metric"`
	Series int    `json:"series"`
}

// MissingSignal is a signal that a server has no metrics of.
type MissingSignal struct {
	Record string   `json:"record"`         // its canonical series
	Why    string   `json:"why,omitempty"`  // what was looked for
	Hint   string   `json:"hint,omitempty"` // how to switch it on
	Near   []string `json:"near,omitempty"` // metrics that no preset knows and that may be it, by their names
	Wakes  []Wake   `json:"wakes"`          // alerts that could fire with it
}

// Wake is an alert that a signal lets fire.
type Wake struct {
	Alert string   `json:"alert"`
	With  []string `json:"with,omitempty"` // together with these, which are missing too
}

// Doubt is a metric whose values contradict how it is read.
type Doubt struct {
	Record string `json:"record"` // which reads it
	Metric string `json:"metric"`
	Why    string `json:"why"`
}

// Check looks at what each rule of a group reads. The group is one of
// Options.All: a signal without an expression is one that the server does not
// have, and what is possible without those is decided as Generate does, whatever
// has a value at the moment. src is the server, where the group need not be
// loaded: its canonical series are those of c, whose window ends at the moment
// that is looked at. AddRecords is called on them.
func Check(ctx context.Context, src series.Source, c *series.Canonical, g *Group) (*Checked, error) {
	if err := series.AddRecords(ctx, c.Store, c.Timing, c.From, c.Start, c.End); err != nil {
		return nil, err
	}
	k := &checker{
		ctx: ctx, src: src, c: c,
		matches: map[string]*series.Match{}, missing: map[string]bool{}, exprs: map[string]string{}, states: map[string]Wait{},
		out: &Checked{Schema: CheckSchema, At: c.End, Alerts: []CheckedAlert{}, Records: []CheckedRecord{}, Missing: []MissingSignal{}, Doubts: []Doubt{}},
	}
	for i := range c.Matches {
		k.matches["contend:"+c.Matches[i].Signal] = &c.Matches[i]
	}
	for i := range g.Rules {
		r := &g.Rules[i]
		var err error
		switch {
		case r.Record == Holds: // its alert comes next
		case r.Record == LooksLike:
			err = k.lookAlike(r)
		case r.Alert != "" && i > 0 && g.Rules[i-1].Record == Holds:
			err = k.alert(r, g.Rules[i-1].Expr)
		case r.Alert != "":
			err = k.alert(r, r.Expr)
		case k.matches[r.Record] != nil:
			k.signal(r)
		default:
			k.record(r)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.Record+r.Alert, err)
		}
	}
	order := []string{detect.AlertPage, detect.AlertTicket, detect.AlertInfo}
	slices.SortStableFunc(k.out.Alerts, func(a, b CheckedAlert) int {
		return slices.Index(order, a.Severity) - slices.Index(order, b.Severity)
	})
	k.out.Missing = k.switchOn()
	return k.out, nil
}

type checker struct {
	ctx     context.Context
	src     series.Source
	c       *series.Canonical
	out     *Checked
	matches map[string]*series.Match // of each signal, by its canonical series, as all that follow
	missing map[string]bool          // signals that the server does not have
	exprs   map[string]string        // of records
	states  map[string]Wait          // of signals and records so far
}

// signal is a rule of stage one.
func (k *checker) signal(r *Rule) {
	m := k.matches[r.Record]
	out := CheckedRecord{Record: r.Record, State: HasValue, Instances: k.now(r.Record), Reads: []Selected{}}
	switch {
	case r.Expr == "":
		out.State = NoSeries
		k.missing[r.Record] = true
	case out.Instances == 0:
		out.State = NoValue
		if len(m.Metrics) > 0 {
			out.Why = m.Missing
			// That it has no value in these metrics is said; it may be known why.
			if _, reason, ok := strings.Cut(m.Missing, strings.Join(m.Metrics, ", ")); ok {
				out.Why = strings.TrimPrefix(reason, ": ")
			}
		}
	}
	for _, name := range m.Metrics {
		if strings.HasPrefix(name, "contend:") {
			out.Reads = append(out.Reads, Selected{name, k.now(name)})
			continue
		}
		count, err := k.count("count({" + k.selector(name) + "})")
		if err != nil {
			continue // it was read a moment ago: the rest says what there is
		}
		out.Reads = append(out.Reads, Selected{name, count})
		if count == 0 {
			continue
		}
		if why := k.contradiction(name, count, usesOf(r.Expr, name)); why != "" {
			k.out.Doubts = append(k.out.Doubts, Doubt{r.Record, name, why})
		}
	}
	k.add(out)
}

func (k *checker) selector(metric string) string {
	out := fmt.Sprintf("__name__=%q", metric)
	if k.c.Selector != "" && !series.Foreign(metric) {
		out += "," + k.c.Selector
	}
	return out
}

// record is a rule that records canonical series.
func (k *checker) record(r *Rule) {
	k.exprs[r.Record] = r.Expr
	out := CheckedRecord{Record: r.Record, State: HasValue, Instances: k.now(r.Record), Reads: k.reads(r.Expr)}
	switch {
	case !k.possible(r.Expr, k.there):
		out.State = NoSeries
	case out.Instances == 0:
		out.State = NoValue
		if takes := history(r.Expr); takes > 0 && !slices.ContainsFunc(out.Reads, func(s Selected) bool { return s.Series == 0 }) {
			out.State, out.Takes = NoHistory, duration(takes)
		}
		for _, s := range out.Reads { // a baseline's median
			if of := k.states[s.Metric]; of.State == NoHistory && k.cannotDoWithout(r.Expr, s.Metric) {
				out.State, out.Takes = NoHistory, of.Takes
			}
		}
	}
	k.add(out)
}

func (k *checker) add(r CheckedRecord) {
	k.out.Records = append(k.out.Records, r)
	k.states[r.Record] = Wait{r.Record, r.State, r.Takes}
}

// alert is an alert of that condition.
func (k *checker) alert(r *Rule, condition string) error {
	out := CheckedAlert{Alert: r.Alert, Reads: k.reads(condition)}
	for _, l := range r.Labels {
		if l.Name == "severity" {
			out.Severity = l.Value
		}
	}
	if k.possible(condition, k.there) {
		m, err := k.c.Store.Range(k.ctx, condition, k.c.End, k.c.End, k.c.Timing.Interval)
		if err != nil {
			return err
		}
		out.State, out.Instances = Holding, len(m)
		if condition == r.Expr { // it counts them by job
			out.Instances = 0
			for _, s := range m {
				out.Instances += int(lastOf(s))
			}
		}
		if len(m) == 0 {
			out.State, out.Waits = False, k.waits(condition)
		}
	} else {
		out.State, out.Needs = NoSeries, k.needs(condition)
	}
	k.out.Alerts = append(k.out.Alerts, out)
	return nil
}

// lookAlike adds what a rule records at the moment to the canonical series.
func (k *checker) lookAlike(r *Rule) error {
	m, err := k.c.Store.Range(k.ctx, r.Expr, k.c.End, k.c.End, k.c.Timing.Interval)
	if err != nil {
		return err
	}
	for i := range m {
		b := labels.NewBuilder(m[i].Metric)
		for _, l := range r.Labels {
			b.Set(l.Name, l.Value)
		}
		m[i].Metric = b.Labels()
	}
	k.c.Store.AppendMatrix(r.Record, m, k.c.Timing.Interval)
	return nil
}

// there is whether Generate would write a signal's rule, and records all: whether
// one of them is possible is asked of its own expression.
func (k *checker) there(name string) bool {
	return k.exprs[name] != "" || k.matches[name] != nil && !k.missing[name]
}

// possible is whether an expression can have a value where has is true of what
// there is, itself and through the records that it reads.
func (k *checker) possible(expr string, has func(name string) bool) bool {
	ok, err := series.Possible(expr, func(name string) bool {
		return has(name) && (k.exprs[name] == "" || k.possible(k.exprs[name], has))
	})
	return ok && err == nil // Generate has parsed it
}

// cannotDoWithout is whether an expression that is possible is so no more
// where a record or a signal has no value.
func (k *checker) cannotDoWithout(expr, name string) bool {
	return !k.possible(expr, func(n string) bool { return n != name && k.there(n) })
}

// waits are what has no value now and the condition cannot do without: records
// that lack history, and signals. Other records have none for want of these, or
// since there is nothing to record: while nothing restarts there are no short lives.
func (k *checker) waits(condition string) []Wait {
	direct := canonicalNames(condition)
	var out []Wait
	for _, name := range k.closure(condition) {
		of := k.states[name]
		lacks := of.State == NoHistory && slices.Contains(direct, name) || of.State == NoValue && k.matches[name] != nil
		if lacks && k.cannotDoWithout(condition, name) {
			out = append(out, of)
		}
	}
	return out
}

// needs are the smallest sets of missing signals with any of which a condition is possible.
func (k *checker) needs(condition string) [][]string {
	signals := slices.DeleteFunc(k.closure(condition), func(name string) bool { return !k.missing[name] })
	// Each set is a number's bits. A condition reads few signals: ten are a thousand sets.
	sets := make([]uint, 1<<len(signals))
	for i := range sets {
		sets[i] = uint(i)
	}
	slices.SortStableFunc(sets, func(a, b uint) int { return bits.OnesCount(a) - bits.OnesCount(b) })
	var smallest []uint
	var out [][]string
	for _, set := range sets {
		if slices.ContainsFunc(smallest, func(s uint) bool { return s&set == s }) {
			continue
		}
		in := func(name string) bool {
			i := slices.Index(signals, name)
			return i >= 0 && set&(1<<i) != 0
		}
		if k.possible(condition, func(name string) bool { return k.there(name) || in(name) }) {
			smallest = append(smallest, set)
			out = append(out, slices.DeleteFunc(slices.Clone(signals), func(name string) bool { return !in(name) }))
		}
	}
	return out
}

// closure is what an expression reads, itself and through records, sorted.
func (k *checker) closure(expr string) []string {
	seen := map[string]bool{}
	left := canonicalNames(expr)
	for len(left) > 0 {
		name := left[0]
		left = left[1:]
		if !seen[name] {
			seen[name] = true
			left = append(left, canonicalNames(k.exprs[name])...)
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// switchOn are the missing signals, each with the alerts that could fire with it.
func (k *checker) switchOn() []MissingSignal {
	var order []string
	wakes := map[string][]Wake{}
	for _, a := range k.out.Alerts {
		for _, set := range a.Needs { // the smallest first
			for _, name := range set {
				order = append(order, name)
				if !slices.ContainsFunc(wakes[name], func(w Wake) bool { return w.Alert == a.Alert }) {
					with := slices.DeleteFunc(slices.Clone(set), func(other string) bool { return other == name })
					wakes[name] = append(wakes[name], Wake{a.Alert, with})
				}
			}
		}
	}
	for _, r := range k.out.Records {
		if k.missing[r.Record] {
			order = append(order, r.Record)
		}
	}
	out := []MissingSignal{}
	for i, name := range order {
		if slices.Index(order, name) < i {
			continue
		}
		m := k.matches[name]
		out = append(out, MissingSignal{name, m.Missing, m.Hint, m.Near, append([]Wake{}, wakes[name]...)})
	}
	return out
}

// reads are the canonical series of an expression.
func (k *checker) reads(expr string) []Selected {
	out := []Selected{}
	for _, name := range canonicalNames(expr) {
		out = append(out, Selected{name, k.now(name)})
	}
	return out
}

// now is how many series of a canonical name have a value at the moment.
func (k *checker) now(name string) (n int) {
	at := k.c.End.UnixMilli()
	for _, col := range k.c.Store.Columns(name) {
		if i, ok := slices.BinarySearch(col.T, at); ok && !math.IsNaN(col.V[i]) {
			n++
		}
	}
	return n
}

// history is how long what an expression reads must have been there, where it
// asks for a number of points of it, as
// count_over_time(x[1h:2m] offset 6m) >= 5; 0 where it does not.
func history(expr string) (d time.Duration) {
	e, err := series.ParsePromQL(expr)
	if err != nil {
		return 0
	}
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		b, ok := n.(*parser.BinaryExpr)
		if !ok || b.Op != parser.GTE {
			return nil
		}
		call, _ := b.LHS.(*parser.Call)
		points, _ := b.RHS.(*parser.NumberLiteral)
		if call == nil || points == nil || call.Func.Name != "count_over_time" {
			return nil
		}
		if sub, ok := call.Args[0].(*parser.SubqueryExpr); ok {
			d = sub.OriginalOffset + time.Duration(points.Val)*sub.Step
		}
		return nil
	})
	return d
}

var canonicalName = regexp.MustCompile(`contend:[a-z_]+(?::[a-z_]+)?`)

func canonicalNames(expr string) []string {
	names := map[string]bool{}
	for _, n := range canonicalName.FindAllString(expr, -1) {
		names[n] = true
	}
	return slices.Sorted(maps.Keys(names))
}
