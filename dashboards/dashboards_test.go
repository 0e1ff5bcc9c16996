package dashboards_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"go.yaml.in/yaml/v2"

	"github.com/contend/contend/dashboards"
	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/all"
	"github.com/contend/contend/ingest/series"
)

// standard are the options of the command without flags.
var standard = dashboards.Options{Timing: series.Timing{Interval: 15 * time.Second}, Path: "/var/lib/grafana/dashboards/contend"}

func TestMain(m *testing.M) {
	plugins.RegisterDefaultPlugins() // for strict unmarshalling: of panels and queries by their types
	os.Exit(m.Run())
}

func generate(t *testing.T, opt dashboards.Options) []dashboards.File {
	t.Helper()
	files, err := dashboards.Generate(all.Detectors(), opt)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 4 {
		t.Fatalf("expected two dashboards, the provider and the linter's file, saw %d files", len(files))
	}
	return files
}

// TestDerivedFiles holds the files in this directory to what is generated.
// CONTEND_UPDATE=1 rewrites them.
func TestDerivedFiles(t *testing.T) {
	t.Parallel()
	for _, f := range generate(t, standard) {
		if os.Getenv("CONTEND_UPDATE") == "1" {
			if err := os.WriteFile(f.Name, f.Data, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := os.ReadFile(f.Name)
		if err != nil {
			t.Errorf("%v; CONTEND_UPDATE=1 go test ./dashboards writes it", err)
			continue
		}
		if !bytes.Equal(got, f.Data) {
			t.Errorf("%s is not what is generated; CONTEND_UPDATE=1 go test ./dashboards rewrites it", f.Name)
		}
	}
}

func TestSameBytes(t *testing.T) {
	t.Parallel()
	first := generate(t, standard)
	for i, f := range generate(t, standard) {
		if f.Name != first[i].Name || !bytes.Equal(f.Data, first[i].Data) {
			t.Errorf("%s differs between two runs", f.Name)
		}
	}
}

func TestStrict(t *testing.T) {
	t.Parallel()
	uids := map[string]bool{}
	for _, f := range boards(t, standard) {
		d, errs := strict(f.Data)
		for _, err := range errs {
			t.Errorf("%s: %v", f.Name, err)
		}
		if d.Uid == nil || len(*d.Uid) < 8 || len(*d.Uid) > 40 || uids[*d.Uid] {
			t.Errorf("%s: expected a uid of its own of 8 to 40 characters", f.Name)
			continue
		}
		uids[*d.Uid] = true
		var with map[string]any
		if err := json.Unmarshal(f.Data, &with); err != nil {
			t.Fatal(err)
		}
		with["surprise"] = 1
		data, err := json.Marshal(with)
		if err != nil {
			t.Fatal(err)
		}
		if _, errs := strict(data); len(errs) != 1 {
			t.Errorf("%s: expected an error for a field that Grafana does not have, saw %v", f.Name, errs)
		}
	}
	if !uids["contend-overview"] || !uids["contend-fleet"] {
		t.Errorf("expected the uids that links and bookmarks have, saw %v", uids)
	}
}

// strict reads a dashboard. The SDK has a list of errors, empty where there are none, as its error.
//
//lint:ignore SA1019 see newBoard
func strict(data []byte) (d dashboard.Dashboard, errs cog.BuildErrors) {
	if err := d.UnmarshalJSONStrict(data); !errors.As(err, &errs) && err != nil {
		errs = cog.MakeBuildErrors("dashboard", err)
	}
	return d, errs
}

// boards are the files that are dashboards.
func boards(t *testing.T, opt dashboards.Options) []dashboards.File {
	t.Helper()
	out := slices.DeleteFunc(generate(t, opt), func(f dashboards.File) bool { return !strings.HasSuffix(f.Name, ".json") })
	if len(out) != 2 {
		t.Fatalf("expected two dashboards, saw %d", len(out))
	}
	return out
}

func TestProvider(t *testing.T) {
	t.Parallel()
	opt := standard
	opt.Path = `/srv/it's "here": #1`
	for _, f := range generate(t, opt) {
		if f.Name != "provider.yaml" {
			continue
		}
		var got struct {
			APIVersion int `yaml:"apiVersion"`
			Providers  []struct {
				Name, Folder, Type string
				AllowUIUpdates     bool `yaml:"allowUiUpdates"`
				Options            struct{ Path string }
			}
		}
		if err := yaml.UnmarshalStrict(f.Data, &got); err != nil {
			t.Fatal(err)
		}
		if got.APIVersion != 1 || len(got.Providers) != 1 || got.Providers[0].Type != "file" || got.Providers[0].Options.Path != opt.Path {
			t.Errorf("saw %+v", got)
		}
		return
	}
	t.Fatal("there is no provider.yaml")
}

func TestRowsAreDetectors(t *testing.T) {
	t.Parallel()
	panels := map[string][]panel{} // by row
	for _, f := range boards(t, standard) {
		b := read(t, f)
		if b.UID != "contend-overview" {
			continue
		}
		for _, row := range b.Panels {
			if row.Type == "row" {
				name, _, _ := strings.Cut(row.Title, ":")
				panels[name] = row.Panels
			}
		}
	}
	alone := panels["what stacks alone show"]
	if len(alone) != 1 {
		t.Fatalf("expected one panel of what stacks alone show, saw %d", len(alone))
	}
	looked := 0
	for _, d := range all.Detectors() {
		link := "https://github.com/contend/contend/blob/main/detect/" + d.Name + "/README.md"
		if len(d.Signals) == 0 {
			if !strings.Contains(alone[0].Options.Content, "["+d.Name+"]("+link+")") || !strings.Contains(alone[0].Options.Content, d.NoAlert) {
				t.Errorf("%s, which has no signals, is not explained", d.Name)
			}
			continue
		}
		looked++
		for _, p := range panels[d.Name] {
			if len(p.Links) != 1 || p.Links[0].URL != link {
				t.Errorf("%s: panel %q does not link to the detector's page", d.Name, p.Title)
			}
		}
		for _, s := range d.Signals {
			if !slices.ContainsFunc(panels[d.Name], func(p panel) bool {
				return strings.Contains(p.Description, "**"+s.Alert+"**") && strings.Contains(p.Description, s.Thresholds)
			}) {
				t.Errorf("%s: no panel is of %s and says where its thresholds come from", d.Name, s.Alert)
			}
		}
	}
	if looked == 0 {
		t.Fatal("no detector has signals")
	}
}

// TestThresholds spells every limit that is drawn, and every gate that is told
// instead, of each panel of each detector's row.
func TestThresholds(t *testing.T) {
	t.Parallel()
	type told struct {
		title, unit string
		limits      []string // alert and bound, of lines
		gates       string   // in the description
	}
	for detector, want := range map[string][]told{
		"herd": {
			{"Requests that arrive per second", "reqps", nil, ""},
			{"Requests that began, all of the job", "reqps", []string{"ContendHerd {{job}}: 2 * arrivals:peak"}, "above `2 * contend:arrivals:peak + 30 / 60`"},
			{"Requests that began, the highest of the last hour", "reqps", nil, "above `10 / 60`"},
			{"Requests that began, mean of the job's instances", "reqps", nil, "above `2 * contend:arrivals:mean_peak`"},
		},
		// Whether there is any (> 0, == 0) is neither.
		"hungrequests": {
			{"Requests in flight that do not finish", "short", []string{"ContendHungRequests {{instance}}: 0.5 * inflight"}, ""},
			{"Requests being served now", "short", nil, "from `10` on, above `3 * contend:inflight:baseline`"},
		},
		"cpubound": {
			{"Cores busy", "short", []string{"ContendCPUBound {{instance}}: 0.9 * cpu_limit"}, ""},
			{"Share of scheduler periods in which a CPU quota stopped the container", "percentunit", []string{"ContendCPUBound: 0.5"}, ""},
			{"Requests being served now", "short", nil, "above `2 * contend:inflight:baseline`, from `5` on"},
			{"Runnable, queueing for CPU", "short", nil, "above `0.2 * contend:inflight`, from `3` on"},
			{"Mean duration of finished requests, health checks and streams apart", "s", nil, "above `2 * contend:latency:baseline`"},
		},
		"downstream": {
			{"Requests in outgoing calls", "short", []string{
				"ContendDownstream {{instance}}: 2 * dependency_wait:baseline", "ContendDownstream {{instance}}: 0.5 * inflight",
			}, "from `5` on"},
		},
		"lockwait": {
			{"Goroutines or threads that wait for a lock, on average", "short", []string{
				"ContendLockWait {{instance}}: 0.2 * inflight", "ContendLockWait {{instance}}: 5 unless inflight",
			}, "from `3` on"},
		},
		"poolwait": {
			{"ContendPoolWait: Requests that wait for a connection", "short", []string{
				"ContendPoolWait {{instance}}: 0.2 * inflight", "ContendPoolWait {{instance}}: 5 unless inflight",
			}, "from `3` on"},
			{"ContendPoolExhausted: Share of the pool's connections in use", "percentunit", []string{"ContendPoolExhausted {{instance}}: 0.95 unless pool_wait"}, ""},
			{"ContendPoolExhausted: Requests being served now", "short", nil,
				"from `5 unless contend:pool_wait` on, above `3 * contend:inflight:baseline unless contend:pool_wait`"},
		},
		"healthcheck": {
			{"ContendHealthCheckSlow: Seconds of a health check", "s", []string{
				"ContendHealthCheckSlow {{instance}}: 0.5 * health_timeout",
				"ContendHealthCheckSlow {{instance}}: 5 * health_latency:baseline unless health_timeout",
				"ContendHealthCheckSlow {{instance}}: 0.5 unless health_timeout unless health_latency:baseline",
			}, "above `0.2 unless contend:health_timeout`"},
			{"ContendHealthCheckFailing: Failed health checks in a window of four scrapes", "short", []string{"ContendHealthCheckFailing: 2"}, ""},
		},
		"inflightcpu": {
			{"Requests in flight per busy core", "short", []string{
				"ContendInflightCPU {{instance}}: 3 * inflight_per_cpu:baseline",
				"ContendInflightCPU {{instance}}: 50 unless inflight_per_cpu:baseline",
			}, ""},
			{"Requests being served now", "short", nil, "from `5` on, above `2 * contend:inflight:baseline`, from `50 unless contend:inflight_per_cpu:baseline` on, " +
				"above `3 * min_over_time(contend:inflight[30m]) unless contend:inflight_per_cpu:baseline`"},
		},
		"memorygrowth": {
			{"Share of the memory limit in use", "percentunit", nil, "above `0.5`"},
			{"Memory in use, extrapolated", "bytes", []string{"ContendMemoryGrowth {{instance}}: memory_limit"}, ""},
			{"Requests being served now", "short", nil, "above `1.5 * contend:inflight:baseline`, from `5` on"},
			{"Open client connections", "short", nil, "above `1.5 * contend:connections:baseline`"},
		},
		"replacement": {
			{"How often the instance began again shortly after it began", "short", nil, ""},
			{"How often the instance began again soon after it began, all of the job", "short", []string{"ContendReplacementSpiral: 2"}, ""},
			{"Age of the instance, highest of the job's instances", "s", nil, "above `900`"},
		},
	} {
		var got []told
		for _, p := range rowOf(t, detector) {
			d := told{p.Title, p.FieldConfig.Defaults.Unit, limitsOf(p), ""}
			if gates, ok := strings.CutPrefix(p.Description, "A gate, no limit, and so not drawn: it matters "); ok {
				gates, _, _ = strings.Cut(gates, "\n\n")
				d.gates = strings.TrimSuffix(gates, ".")
			}
			got = append(got, d)
		}
		if a, b := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); a != b {
			t.Errorf("%s: saw\n%s\nwant\n%s", detector, a, b)
		}
	}
	for _, d := range all.Detectors() {
		if len(d.Signals) > 0 {
			rowOf(t, d.Name)
		}
	}
}

// limitsOf are the legends of a panel's lines that are limits.
func limitsOf(p panel) []string {
	var out []string
	for _, q := range p.Targets {
		if strings.HasPrefix(q.LegendFormat, "Contend") {
			out = append(out, q.LegendFormat)
		}
	}
	return out
}

// TestHeadlineLimits: a panel that is no detector's draws the limits of the
// alerts on the same, and on nothing else.
func TestHeadlineLimits(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"In flight per busy core":             "ContendInflightCPU {{instance}}: 3 * inflight_per_cpu:baseline; ContendInflightCPU {{instance}}: 50 unless inflight_per_cpu:baseline",
		"Health checks against their timeout": "ContendHealthCheckSlow {{instance}}: 0.5 * health_timeout; ContendHealthCheckSlow {{instance}}: 5 * health_latency:baseline unless health_timeout; ContendHealthCheckSlow {{instance}}: 0.5 unless health_timeout unless health_latency:baseline",
		"Arrivals against completions":        "ContendHerd {{job}}: 2 * arrivals:peak",
		"Replacements":                        "ContendReplacementSpiral: 2",
	}
	for _, f := range boards(t, standard) {
		for _, p := range read(t, f).Panels {
			if got := strings.Join(limitsOf(p), "; "); got != want[p.Title] {
				t.Errorf("%s: %s: saw %q, want %q", f.Name, p.Title, got, want[p.Title])
			}
			delete(want, p.Title)
			for _, panel := range append(p.Panels, p) {
				if len(panel.FieldConfig.Defaults.Thresholds.Steps) > 0 {
					t.Errorf("%s: %s: draws numbers without a name", f.Name, panel.Title)
				}
			}
		}
	}
	for title := range want {
		t.Errorf("there is no panel %q", title)
	}
}

// TestLimitQueries spells the query of a limit of each form.
func TestLimitQueries(t *testing.T) {
	t.Parallel()
	const at = `{instance=~"$instance",job=~"$job"}`
	for legend, want := range map[string]string{
		"ContendInflightCPU {{instance}}: 3 * inflight_per_cpu:baseline":       "(3 * contend:inflight_per_cpu:baseline" + at + ") and on (job, instance) topk by (job) ($worst, max_over_time((contend:inflight_per_cpu" + at + ")[$__range:$__interval] @ end()))",
		"ContendInflightCPU {{instance}}: 50 unless inflight_per_cpu:baseline": "(0 * (contend:inflight_per_cpu" + at + ") + 50 unless contend:inflight_per_cpu:baseline" + at + ") and on (job, instance) topk by (job) ($worst, max_over_time((contend:inflight_per_cpu" + at + ")[$__range:$__interval] @ end()))",
		"ContendHerd {{job}}: 2 * arrivals:peak":                               `2 * contend:arrivals:peak{job=~"$job"}`,
		"ContendHealthCheckFailing: 2":                                         "vector(2)",
	} {
		found := 0
		for _, f := range boards(t, standard) {
			for _, p := range read(t, f).all() {
				for _, q := range p.Targets {
					if q.LegendFormat == legend {
						found++
						if q.Expr != want {
							t.Errorf("%s: saw %s, want %s", legend, q.Expr, want)
						}
					}
				}
			}
		}
		if found == 0 {
			t.Errorf("%s is not drawn", legend)
		}
	}
}

func rowOf(t *testing.T, detector string) []panel {
	t.Helper()
	for _, f := range boards(t, standard) {
		for _, row := range read(t, f).Panels {
			if strings.HasPrefix(row.Title, detector+":") {
				return row.Panels
			}
		}
	}
	t.Fatalf("%s has no row", detector)
	return nil
}

// TestSettings: what --set changes is drawn and described as the rules have it,
// and nothing else is.
func TestSettings(t *testing.T) {
	t.Parallel()
	set := standard
	for _, text := range []string{"ContendInflightCPU.ratio=7", "ContendInflightCPU.inflight=11", "ContendInflightCPU.for=3m", "ContendInflightCPU.severity=info"} {
		s, err := detect.ParseSetting(text)
		if err != nil {
			t.Fatal(err)
		}
		set.Settings = append(set.Settings, s)
	}
	usual, changed := generate(t, standard), generate(t, set)
	if string(usual[1].Data) != string(changed[1].Data) {
		t.Error("the fleet, which draws no thresholds, changed")
	}
	for _, tt := range []struct {
		text           string
		usual, changed int
	}{
		{"(3 * contend:inflight_per_cpu:baseline{", 2, 0},
		{"(7 * contend:inflight_per_cpu:baseline{", 0, 2},
		{"contend:inflight_per_cpu \\u003e 3 * contend:inflight_per_cpu:baseline", 2, 0}, // the descriptions of the detector's two panels
		{"contend:inflight_per_cpu \\u003e 7 * contend:inflight_per_cpu:baseline", 0, 2},
		{"it matters from `11` on, above `2 * contend:inflight:baseline`", 0, 1},
		{"Fires where this holds for 3m0s:", 0, 2},
		{"**ContendInflightCPU** (page):", 2, 0},
		{"**ContendInflightCPU** (info):", 0, 2},
		{"3 * contend:inflight:baseline", strings.Count(string(usual[0].Data), "3 * contend:inflight:baseline"), strings.Count(string(usual[0].Data), "3 * contend:inflight:baseline")},
	} {
		if a, b := strings.Count(string(usual[0].Data), tt.text), strings.Count(string(changed[0].Data), tt.text); a != tt.usual || b != tt.changed {
			t.Errorf("%s: saw it %d times, with the settings %d, want %d and %d", tt.text, a, b, tt.usual, tt.changed)
		}
	}
	set.Settings = []detect.Setting{{Alert: "ContendHeard", Name: "factor", Value: "2"}}
	if _, err := dashboards.Generate(all.Detectors(), set); err == nil || !strings.Contains(err.Error(), `unknown alert "ContendHeard"`) {
		t.Errorf("saw %v", err)
	}
}

// TestZero: a threshold of nought is none to draw, and no reason to fail.
func TestZero(t *testing.T) {
	t.Parallel()
	tried := 0
	for _, d := range all.Detectors() {
		opt := standard
		for _, s := range d.Signals {
			for _, l := range s.Limits() {
				opt.Settings = append(opt.Settings, detect.Setting{Alert: s.Alert, Name: l.Name, Value: "0"})
			}
		}
		tried += len(opt.Settings)
		files, err := dashboards.Generate([]*detect.Detector{d}, opt)
		if err != nil {
			t.Errorf("%s: %v", d.Name, err)
		} else if strings.Contains(string(files[0].Data), "vector(0)") {
			t.Errorf("%s: draws nought", d.Name)
		}
	}
	if tried == 0 {
		t.Fatal("no alert has a limit")
	}
}

// TestAbout: an alert that compares nothing it is about cannot be drawn.
func TestAbout(t *testing.T) {
	t.Parallel()
	for _, about := range []string{"contend:goroutines", "contend:memory / contend:memory_limit * 2"} {
		var list []*detect.Detector
		for _, d := range all.Detectors() {
			if d.Name == "memorygrowth" {
				changed := *d
				changed.Signals = slices.Clone(d.Signals)
				changed.Signals[0].About = about
				list = append(list, &changed)
			}
		}
		if _, err := dashboards.Generate(list, standard); err == nil || !strings.Contains(err.Error(), "ContendMemoryGrowth: expected a condition with a limit on what it is about") {
			t.Errorf("%s: saw %v", about, err)
		}
	}
}

// TestFewPanels: what repeats stands in closed rows, so that what opens is as
// much for fifty jobs as for one; and Grafana begins with one job.
func TestFewPanels(t *testing.T) {
	t.Parallel()
	for _, f := range boards(t, standard) {
		b := read(t, f)
		repeated := map[string]bool{}
		open := 0
		for _, p := range b.Panels {
			if p.Repeat != "" {
				t.Errorf("%s: %q is repeated for %s and open", f.Name, p.Title, p.Repeat)
			}
			if p.Type != "row" {
				open++
			}
			if p.Type == "row" && p.Collapsed != (len(p.Panels) > 0) {
				t.Errorf("%s: row %q: closed: %v, has %d panels in it", f.Name, p.Title, p.Collapsed, len(p.Panels))
			}
			for _, inner := range p.Panels {
				if inner.Repeat != "" {
					repeated[inner.Repeat] = true
				}
			}
		}
		if want := map[string]string{"overview.json": "map[job:true]", "fleet.json": "map[worst_instance:true]"}[f.Name]; fmt.Sprint(repeated) != want || open > 13 {
			t.Errorf("%s: %v are repeated in closed rows, and %d panels open; want %s, and 13 at most", f.Name, repeated, open, want)
		}
		for _, v := range b.Templating.List {
			if v.Name == "job" && (v.IncludeAll || v.Query != `label_values({__name__=~"contend:(inflight|completions)"}, job)`) {
				t.Errorf("%s: expected services, none of which is All, saw %+v", f.Name, v)
			}
		}
	}
}
