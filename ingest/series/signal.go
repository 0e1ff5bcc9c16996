package series

// Signal is one quantity that detectors reason about. Its canonical series is
// contend:<Name> by job and instance.
type Signal struct {
	Name    string // spelled the same everywhere: canonical series, contend.yaml, --signal
	Meaning string // one line, for people
	Unit    string // "requests", "requests/s", "checks/s", "1/s", "cores", "bytes", "count", "seconds", "unix seconds", "share"
	// Hint says how to switch a signal on that a service does not export.
	Hint string
	// Smallest is set where of several values the smallest counts: limits.
	Smallest bool
	// Largest is set where of several names that a service chose for one thing
	// the largest value counts, and not the best-known name: of requests, which
	// the layers of a service each count those of that they see.
	Largest bool
	// Presets are how real libraries export it. See Preset.Rank and Preset.Part
	// for how several that are there are put together.
	Presets []Preset
}

// Metric is the name of the signal's canonical series.
func (s Signal) Metric() string { return canonicalPrefix + s.Name }

const canonicalPrefix = "contend:"

// aggregate is how several series of one instance become one, where a user's
// own PromQL has more labels than job and instance: quantities that add up are
// summed; of durations, shares and times the largest counts.
func (s Signal) aggregate() string {
	switch {
	case s.Smallest:
		return "min"
	case s.Unit == "seconds", s.Unit == "unix seconds", s.Unit == "share":
		return "max"
	}
	return "sum"
}

// Preset is how one library or exporter exports a signal. It carries the
// meaning itself: the type that a metric declares is not trusted, since
// exporters are known to declare the wrong one.
type Preset struct {
	// Source names the library or exporter: "client_golang", "OpenTelemetry", "Envoy".
	Source string
	// Known are the names that METRIC in Expr stands for, best first: spellings
	// of one name, or those that users most often choose. The first that has a
	// value for an instance counts, and rules for no particular server are made
	// of them. A histogram's name is without _sum, _count and _bucket. Empty where
	// Expr spells its names.
	Known []string
	// Metric is an anchored regular expression of METRIC's further names, for the
	// libraries that let the user choose it. "" where Known are all.
	Metric string
	// Not is an anchored regular expression of names that Metric matches and
	// that mean something else (the scrape handler's own requests).
	Not string
	// Expr is PromQL of stage one, with {{spans}} as in Timing, and HEALTH, SCRAPE
	// and STREAM in regular expressions of routes. Its result has the labels job
	// and instance and no others.
	Expr string
	// Foreign are beginnings of metric names in Expr that another job exports
	// (cAdvisor, kube-state-metrics): the user's selector does not apply to them.
	Foreign []string
	// Derived is set where Expr reads canonical series of signals that come
	// earlier in the table. Its rank is above those of all that is not derived.
	Derived bool
	// Part is the share of the signal that the preset measures, where parts add
	// up: calls by HTTP and calls to databases are different requests' waits.
	Part string
	// Rank puts presets of one part together: of one instance, the lowest rank
	// that has a value wins, and among those of equal rank the largest value.
	Rank int
}
