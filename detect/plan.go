package detect

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/contend/contend/ingest/series"
	"github.com/contend/contend/ingest/series/memory"
)

// plan evaluates a condition to what Prometheus' engine makes of it, in less
// time: the engine computes both sides of an and for all instances and steps,
// although nearly all of them fail its first side. Here the sides of and, or
// and unless are evaluated one after the other, each only for the instances
// and the time that are left, and put together by hand. Everything else is the
// engine's work. Of a fleet of 1,000 instances that is most of the cost.
type plan struct {
	ctx   context.Context
	canon *series.Canonical
}

// scope is what is left to look at.
type scope struct {
	store      *memory.Store // with the series of those instances, and of jobs as a whole
	instances  map[instanceKey]bool
	start, end time.Time
}

// instanceKey are the labels by which conditions match: canonical series have no others.
type instanceKey struct{ job, instance string }

func keyOf(s *promql.Series) instanceKey {
	return instanceKey{s.Metric.Get(model.JobLabel), s.Metric.Get(model.InstanceLabel)}
}

// parse reads PromQL with {{spans}}.
func (p *plan) parse(expr string) (parser.Expr, error) {
	text, err := p.canon.Timing.Expand(expr)
	if err != nil {
		return nil, err
	}
	return series.ParsePromQL(text)
}

// run evaluates PromQL with {{spans}} in a scope.
func (p *plan) run(expr string, in scope) (promql.Matrix, error) {
	e, err := p.parse(expr)
	if err != nil {
		return nil, err
	}
	return p.eval(e, in)
}

func (p *plan) eval(e parser.Expr, in scope) (promql.Matrix, error) {
	switch e := e.(type) {
	case *parser.ParenExpr:
		return p.eval(e.Expr, in)
	case *parser.BinaryExpr:
		if e.Op.IsSetOperator() && p.splits(e) {
			return p.set(e, in)
		}
	}
	store := in.store
	if !byInstance(e) {
		store = p.canon.Store // what it reads of others than its result's instances is there
	}
	return store.Range(p.ctx, e.String(), in.start, in.end, p.canon.Timing.Interval)
}

// splits reports whether a set operation matches in a way that is done here:
// by all labels, or by the job.
func (p *plan) splits(e *parser.BinaryExpr) bool {
	m := e.VectorMatching
	return !m.On && len(m.MatchingLabels) == 0 || byJobOnly(e) && e.Op != parser.LOR
}

func byJobOnly(e *parser.BinaryExpr) bool {
	m := e.VectorMatching
	return m.On && slices.Equal(m.MatchingLabels, []string{model.JobLabel})
}

// byInstance reports whether the result of e for an instance depends on that
// instance's series alone.
func byInstance(e parser.Expr) bool {
	alone := true
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.AggregateExpr:
			alone = false
		case *parser.BinaryExpr:
			if m := n.VectorMatching; m != nil && (m.On || len(m.MatchingLabels) > 0 || m.Card != parser.CardOneToOne && m.Card != parser.CardManyToMany) {
				alone = false
			}
		case *parser.Call:
			switch n.Func.Name {
			case "scalar", "absent", "absent_over_time", "vector", "label_replace", "label_join", "sort", "sort_desc", "histogram_quantile":
				alone = false
			}
		}
		return nil
	})
	return alone
}

func (p *plan) set(e *parser.BinaryExpr, in scope) (promql.Matrix, error) {
	left, err := p.eval(e.LHS, in)
	if err != nil {
		return nil, err
	}
	if e.Op == parser.LOR {
		right, err := p.eval(e.RHS, in)
		if err != nil {
			return nil, err
		}
		return union(left, right), nil
	}
	if len(left) == 0 {
		return nil, nil
	}
	rest := p.narrow(in, left)
	if byJobOnly(e) {
		rest.store, rest.instances = p.canon.Store, nil // another instance of the job may match
	}
	right, err := p.eval(e.RHS, rest)
	if err != nil {
		return nil, err
	}
	match := keyOf
	if byJobOnly(e) {
		match = func(s *promql.Series) instanceKey { return instanceKey{job: s.Metric.Get(model.JobLabel)} }
	}
	return filter(left, right, match, e.Op == parser.LAND), nil
}

// narrow leaves the instances of m, and the time from its first to its last step.
func (p *plan) narrow(in scope, m promql.Matrix) scope {
	out := scope{store: in.store, instances: map[instanceKey]bool{}, start: in.end, end: in.start}
	for i := range m {
		s := &m[i]
		out.instances[keyOf(s)] = true
		if first := time.UnixMilli(s.Floats[0].T); first.Before(out.start) {
			out.start = first
		}
		if last := time.UnixMilli(s.Floats[len(s.Floats)-1].T); last.After(out.end) {
			out.end = last
		}
	}
	if len(out.instances) != len(in.instances) {
		out.store = p.canon.Store.Only(func(c memory.Column) bool {
			instance := c.Labels.Get(model.InstanceLabel)
			return instance == "" || out.instances[instanceKey{c.Labels.Get(model.JobLabel), instance}]
		})
	}
	return out
}

// filter keeps the points of left for which right has a point of the same key
// and step (keep) or has none.
func filter(left, right promql.Matrix, key func(*promql.Series) instanceKey, keep bool) promql.Matrix {
	times := map[instanceKey]map[int64]bool{}
	for i := range right {
		k := key(&right[i])
		if times[k] == nil {
			times[k] = make(map[int64]bool, len(right[i].Floats))
		}
		for _, f := range right[i].Floats {
			times[k][f.T] = true
		}
	}
	var out promql.Matrix
	for i := range left {
		s := left[i]
		has := times[key(&s)]
		s.Floats = slices.DeleteFunc(slices.Clone(s.Floats), func(f promql.FPoint) bool { return has[f.T] != keep })
		if len(s.Floats) > 0 {
			out = append(out, s)
		}
	}
	return out
}

// union has the points of a, and those of b at steps at which a has none of the same instance.
func union(a, b promql.Matrix) promql.Matrix {
	if len(a) == 0 {
		return b
	}
	out := slices.Clone(a)
	at := make(map[instanceKey]int, len(out))
	for i := range out {
		at[keyOf(&out[i])] = i
	}
	for _, s := range filter(b, a, keyOf, false) {
		i, ok := at[keyOf(&s)]
		if !ok {
			out = append(out, s)
			continue
		}
		both := append(slices.Clone(out[i].Floats), s.Floats...)
		slices.SortFunc(both, func(x, y promql.FPoint) int { return cmp.Compare(x.T, y.T) })
		out[i].Floats = both
	}
	return out
}
