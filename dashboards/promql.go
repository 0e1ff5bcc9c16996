package dashboards

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/contend/contend/ingest/series"
)

// scope is which of a job's instances a query is of.
type scope int

const (
	// asAlerts is the scope of an alert: what it adds up is of the whole job, since
	// the sum of some instances is not to be held against the job's peak.
	asAlerts scope = iota
	// chosen is of the instances that the dashboard's variable selects, in sums too.
	chosen
	// repeated is of the one instance that a panel is repeated for.
	repeated
)

// selected is PromQL with the dashboard's variables in every selector. It
// reports whether the result is of single instances.
func selected(text string, of scope) (query string, byInstance bool, err error) {
	e, err := series.ParsePromQL(text)
	if err != nil {
		return "", false, err
	}
	variable := "$instance"
	if of == repeated {
		variable = "$worst_instance"
	}
	parser.Inspect(e, func(n parser.Node, path []parser.Node) error {
		v, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		v.LabelMatchers = append(v.LabelMatchers, matcher("job", "$job"))
		sum := slices.ContainsFunc(path, dropsInstance)
		byInstance = byInstance || !sum && !ofJob(v.Name)
		if ofJob(v.Name) || sum && of == asAlerts {
			return nil
		}
		v.LabelMatchers = append(v.LabelMatchers, matcher("instance", variable))
		return nil
	})
	return e.String(), byInstance, nil
}

func matcher(label, variable string) *labels.Matcher {
	return labels.MustNewMatcher(labels.MatchRegexp, label, variable) // all are names with a dollar: regular expressions
}

// ofJob reports whether a series is recorded by job alone.
func ofJob(name string) bool {
	return strings.HasSuffix(name, ":peak") || strings.HasSuffix(name, ":mean_peak")
}

func dropsInstance(n parser.Node) bool {
	a, ok := n.(*parser.AggregateExpr)
	return ok && !a.Without && !slices.Contains(a.Grouping, "instance")
}

// worstOnly keeps, of a query by instance, each job's instances whose measure
// was highest in what the dashboard shows. A plain topk chooses anew at each step
// and draws as many lines as were ever among the worst. The subquery has the
// panel's own resolution, so that it costs as much as the panel.
func worstOnly(query, measure string) string {
	return fmt.Sprintf("(%s) and on (job, instance) topk by (job) ($worst, max_over_time((%s)[$__range:$__interval] @ end()))", query, measure)
}
