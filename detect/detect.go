// Package detect concludes: it turns a Bundle into a Report of findings, a
// budget of where the requests in flight are, and a verdict.
package detect

import (
	"time"
)

// Role is where a detector stands in the story of an incident.
type Role string

const (
	Trigger  Role = "trigger"  // what set it off
	Cause    Role = "cause"    // what holds the requests
	Symptom  Role = "symptom"  // what follows from it
	Forecast Role = "forecast" // what will happen at a higher load
)

// Severity of a finding, worst first.
type Severity string

const (
	Critical Severity = "critical" // most requests are held
	Warning  Severity = "warning"  // a material share is held
	Info     Severity = "info"     // worth knowing; never alone a verdict
)

// Severities are all of them, worst first.
var Severities = []Severity{Critical, Warning, Info}

// Confidence says how sure a finding is; its warnings say why not surer.
type Confidence string

const (
	High   Confidence = "high"
	Medium Confidence = "medium"
	Low    Confidence = "low"
)

// InputKind is a kind of input a detector can work from.
type InputKind string

const (
	Stacks InputKind = "stacks" // a goroutine profile or dump
	Waits  InputKind = "waits"  // a block or mutex profile
	Series InputKind = "series" // Prometheus series
)

// Need is one kind of input that suffices for a detector; for Series, all of
// the signals named.
type Need struct {
	Input   InputKind
	Signals []string // names of package series
}

// Detector is one thing contend can find. It is a value in a sorted list;
// its name is spelled the same everywhere: folder, package, --detector, documentation.
type Detector struct {
	Name, Title string
	Role        Role
	Doc         string // the folder's README.md: what it means, look-alikes, what to do, proof
	Needs       []Need // any one suffices
	Differences bool   // can also work from a goroutine difference (?seconds=N) or a leak profile
	Signals     []Signal
	NoAlert     string // why no alert on series can see this, where Signals is empty
	Run         func(*Pass) error
}

// Page is where a detector of that name is explained, for people elsewhere.
func Page(name string) string {
	return "https://github.com/contend/contend/blob/main/detect/" + name + "/README.md"
}

// Unit is what a finding counts.
type Unit string

const (
	Requests    Unit = "requests"    // goroutines under a server handler
	Goroutines  Unit = "goroutines"  // where nothing runs under a handler: goroutines that are not idle
	Contentions Unit = "contentions" // events of a cumulative profile: shares, not concurrency
	Samples     Unit = "samples"     // of a wall-clock profile: shares, not counts
)

// Finding is one conclusion with its evidence. Fields that do not apply are
// zero and left out of the JSON.
type Finding struct {
	Detector   string     `json:"detector"`
	Role       Role       `json:"role"`
	Severity   Severity   `json:"severity"`
	Confidence Confidence `json:"confidence"`
	Summary    string     `json:"summary"`
	Job        string     `json:"job,omitempty"`
	Instances  []string   `json:"instances,omitempty"`
	Process    string     `json:"process,omitempty"` // which process, where a call had several; "" where Instances are

	Wait     string `json:"wait,omitempty"`     // a stacks.Kind, or "cpu"
	Package  string `json:"package,omitempty"`  // path of the package whose code waits
	Function string `json:"function,omitempty"` // the function that waits, fully qualified
	Library  string `json:"library,omitempty"`  // module@version, where the file paths tell
	Lock     string `json:"lock,omitempty"`     // address, 0x…

	// Charged is "holder" where Function is the one that holds the lock and
	// releases it (a mutex profile) rather than one that waits.
	Charged string `json:"charged,omitempty"`

	// Blocked is how many wait here, Total of how many, in Unit. All who wait for
	// a lock count, requests or not; RequestsBlocked are the requests among them.
	Blocked         float64 `json:"blocked,omitempty"`
	Total           float64 `json:"total,omitempty"`
	Unit            Unit    `json:"unit,omitempty"`
	RequestsBlocked int64   `json:"requests_blocked,omitempty"`

	Requests   int64 `json:"requests,omitempty"`   // requests in flight in the process
	Goroutines int64 `json:"goroutines,omitempty"` // goroutines in the process

	Labels map[string][]string `json:"labels,omitempty"` // pprof labels of those that wait; values redacted unless asked for

	*Headroom // of a forecast; nil elsewhere

	Alert string `json:"alert,omitempty"` // of series: the alert that fired

	Holder   *Holder    `json:"holder,omitempty"`
	Holds    string     `json:"holds,omitempty"` // where there is no holder: "leaked", "brief" …, in words
	Window   *Window    `json:"window,omitempty"`
	Ongoing  bool       `json:"ongoing,omitempty"` // of series: it holds at the end of what was looked at
	Evidence []Evidence `json:"evidence,omitempty"`
	Next     []string   `json:"next,omitempty"` // what to do, most useful first
	Warnings []string   `json:"warnings,omitempty"`

	// Past is set where it is not so any more, or not yet for as long as it must, as
	// the input ends: of series, its alert does not fire then; of stacks, an earlier
	// snapshot shows it and the latest does not.
	Past bool `json:"-"`
	// Weight is the share of what is in flight that the finding holds, 0 to 1,
	// where it is not Blocked of Total (a lock's waiters can be more than its requests).
	Weight float64 `json:"-"`
	// Onset is when what a finding of series is of began, where that is known to be
	// before its alert's condition held.
	Onset time.Time `json:"-"`
	// Times are all the times that the alert of a finding of series fired.
	Times  []Window      `json:"-"`
	lasted time.Duration // how long the condition of the longest firing held
	again  bool          // it is over, and the condition holds again at the end
	// moment is the step that a finding's numbers are of, affected how many instances then.
	moment   time.Time
	affected Affected
	// Crowds are those whom a cause holds, requests and the helpers they wait
	// through, as a view of its process has them; nil where addresses alone tell.
	Crowds []*Crowd `json:"-"`
	// Locks are the addresses of all locks of a deadlock.
	Locks []string `json:"-"`
	// Outranks lifts a cause above shares: see verdict.go.
	Outranks int `json:"-"`
}

// Holder is the goroutine that likely holds a lock: it stands, not waiting for that
// lock, inside a function that the waiters enter by locking it.
type Holder struct {
	Goroutine int64    `json:"goroutine,omitempty"` // id, where the input has ids
	Function  string   `json:"function"`            // the function inside which it holds the lock
	State     string   `json:"state,omitempty"`     // "runnable", "IO wait", …
	Wait      string   `json:"wait,omitempty"`      // what it waits for itself, in words: "socket in net/http.(*persistConn).roundTrip"
	Stack     []string `json:"stack,omitempty"`     // its frames, leaf first, from where it waits to where it holds
	Brief     []string `json:"-"`                   // the same for people: the standard library's frames left out
	Count     int64    `json:"count,omitempty"`     // how many goroutines fit, where it is more than one
	// Confidence is high where its receiver proves it inside the very object,
	// medium where it is past the line that locks, low where only the type tells.
	Confidence Confidence `json:"confidence,omitempty"`
	// AtLock is set where it waits for a lock itself.
	AtLock bool `json:"-"`
	// Then is who holds the lock that this one waits for itself, and so on.
	Then []Holder `json:"then,omitempty"`
}

// Window is the time a finding or an input covers.
type Window struct {
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
}

// Evidence is a number and where it was read.
type Evidence struct {
	Text  string   `json:"text"`            // a sentence with its numbers
	Input string   `json:"input,omitempty"` // the input it was read from
	Stack []string `json:"stack,omitempty"` // frames, leaf first
	Count float64  `json:"count,omitempty"` // how many stand in that stack
}

// Share is one line of the budget: how many requests are at one place, as
// three independent measures. A nil measure is one that could not be taken.
type Share struct {
	Where  string   `json:"where"` // a BudgetPlace
	Now    Measures `json:"now"`
	Before Measures `json:"before,omitzero"`
}

// Measures are one quantity read three ways, all in requests.
type Measures struct {
	Series *float64 `json:"series,omitempty"`
	Stacks *float64 `json:"stacks,omitempty"`
	Waits  *float64 `json:"waits,omitempty"`
}

// BudgetTimes say of which moments the series of a budget are.
type BudgetTimes struct {
	Of     string     `json:"of"` // the job, its one instance that was profiled, or "4 instances of gateway"
	Now    time.Time  `json:"now"`
	Before *time.Time `json:"before,omitempty"`
}

// Verdict is the answer to "why is it slow?". Cause is "" where nothing was found.
type Verdict struct {
	Cause      string      `json:"cause"`
	Trigger    string      `json:"trigger,omitempty"`
	Confidence Confidence  `json:"confidence,omitempty"`
	Summary    string      `json:"summary"`
	Job        string      `json:"job,omitempty"`
	Instances  *Affected   `json:"instances,omitempty"`
	Story      []StoryLine `json:"story,omitempty"`
}

// Affected counts the processes that share a verdict.
type Affected struct {
	Affected int `json:"affected"`
	Total    int `json:"total"`
}

// StoryLine is one event of an incident.
type StoryLine struct {
	At       time.Time `json:"at"`
	Detector string    `json:"detector"`
	Summary  string    `json:"summary"`
	// Role is the detector's place in the story, Job whose series say it ("" of a
	// profile), and Until when it was over, where it had a length.
	Role  Role      `json:"-"`
	Job   string    `json:"-"`
	Until time.Time `json:"-"`
}

// RuledOut is a cause that was looked for and not found, with its numbers.
type RuledOut struct {
	Detector string `json:"detector"`
	Reason   string `json:"reason"`
	Process  string `json:"process,omitempty"`
	Job      string `json:"job,omitempty"` // where the series of several were looked at
}

// Skipped is a detector that could not look, and why.
type Skipped struct {
	Detector string `json:"detector"`
	Reason   string `json:"reason"`
	Process  string `json:"process,omitempty"`
	Job      string `json:"job,omitempty"`
}

// Input is one input as it was read, with its loss.
type Input struct {
	Name       string           `json:"name"`
	Kind       string           `json:"kind"` // goroutine, block, mutex, wallclock, goroutineleak, series
	Format     string           `json:"format,omitempty"`
	Process    string           `json:"process,omitempty"`
	Taken      *time.Time       `json:"taken,omitempty"`
	Window     string           `json:"window,omitempty"` // Go duration the values were gathered over
	Use        string           `json:"use,omitempty"`    // "difference from X", "earlier snapshot", …
	Goroutines *GoroutineCounts `json:"goroutines,omitempty"`
	Series     int              `json:"series,omitempty"`  // of series: how many
	Samples    int              `json:"samples,omitempty"` // of series: how many in all
	Error      string           `json:"error,omitempty"`   // why it could not be read
}

// GoroutineCounts is the loss report of one dump.
type GoroutineCounts struct {
	Declared int64 `json:"declared,omitempty"`
	Read     int64 `json:"read"`
	Lost     int64 `json:"lost"`
}

// SignalMatch says which of a service's series were taken for a signal.
type SignalMatch struct {
	Signal    string   `json:"signal"`
	Matched   string   `json:"matched,omitempty"`   // the presets that it was read by
	Metrics   []string `json:"metrics,omitempty"`   // the metrics that they read
	Instances int      `json:"instances,omitempty"` // how many have it in the window
	Missing   string   `json:"missing,omitempty"`
	Hint      string   `json:"hint,omitempty"` // how to switch it on
}

// Growth is one line of a comparison with --base.
type Growth struct {
	Wait        string  `json:"wait"`
	Function    string  `json:"function"`
	Unit        Unit    `json:"unit"`
	Before      int64   `json:"before"`
	Now         int64   `json:"now"`
	ShareBefore float64 `json:"share_before"` // of all in Unit, 0 to 1
	ShareNow    float64 `json:"share_now"`
}

// Report is everything concluded from one Bundle.
type Report struct {
	Schema   string     `json:"schema"`
	Verdict  Verdict    `json:"verdict"`
	Findings []Finding  `json:"findings"`
	Budget   []Share    `json:"budget"`
	RuledOut []RuledOut `json:"ruled_out"`
	Skipped  []Skipped  `json:"skipped"`
	// BudgetUnit is what the budget counts, Unexplained the sites of what it cannot place.
	BudgetUnit  Unit          `json:"budget_unit,omitempty"`
	BudgetTimes *BudgetTimes  `json:"budget_times,omitempty"`
	Unexplained []Evidence    `json:"unexplained,omitempty"`
	Signals     []SignalMatch `json:"signals"`
	Base        []Growth      `json:"base,omitempty"`         // what grew against --base, largest first
	BaseSummary string        `json:"base_summary,omitempty"` // what was compared with --base, or why nothing could be
	Inputs      []Input       `json:"inputs"`
	Warnings    []string      `json:"warnings"`
	Notes       []string      `json:"notes,omitempty"` // how inputs were understood: what was taken for one process, what was not used

	// Timelines are how jobs fared, the verdict's first, and MoreTimelines how many
	// jobs were left out. Tree is where the requests of the budget stand; nil where
	// no snapshot shows it. Both are for drawing: bounded, and no part of the JSON.
	Timelines     []Timeline `json:"-"`
	MoreTimelines int        `json:"-"`
	Tree          *Tree      `json:"-"`
	drawn         bool       // see Options
}

// Schema is the version of the JSON form; it changes when a field changes meaning or goes.
const Schema = "contend.report/v1"

// Options are the user's choices.
type Options struct {
	Telemetry []string // import-path prefixes the user counts as telemetry
	Detectors []string // run only these; all where empty
	Labels    bool     // show label values
	Expect    float64  // the surge that locks are to survive, in multiples of today's load; 0 is the usual one
	// Live is for who looks again and again: a cause that only earlier snapshots show was told
	// then, and is over.
	Live bool
	// Drawn fills in Timelines and Tree, for a report that becomes a page. Of many
	// distinct stacks the tree takes more memory than all else.
	Drawn bool
	// AllLocks reports locks that survive Expect too, as information, and each
	// lock without a forecast with its reason.
	AllLocks bool
	// BlockRate and MutexFraction are the sampling of the block and mutex
	// profiles, where the user knows it; 0 is not known. They widen errors: the
	// profiles' values are scaled already.
	BlockRate     time.Duration
	MutexFraction int
	// RandomArrivals is the user's word that requests come from many who know
	// nothing of each other, and are not dealt out in turn.
	RandomArrivals bool
}
