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

// TestThresholds spells what is drawn for alerts of each form; what it does
// not list, TestThresholdsFollow covers.
func TestThresholds(t *testing.T) {
	t.Parallel()
	const at = `{instance=~"$instance",job=~"$job"}`
	type drawn struct {
		title, unit string
		constants   []float64
		lines       []string // without the part that keeps the worst
	}
	for _, tt := range []struct {
		detector string
		want     []drawn
	}{
		{"inflightcpu", []drawn{
			{"Requests in flight per busy core", "short", []float64{50}, []string{
				"contend:inflight_per_cpu" + at, "3 * contend:inflight_per_cpu:baseline" + at,
			}},
			{"Requests being served now", "short", []float64{5, 50}, []string{
				"contend:inflight" + at, "2 * contend:inflight:baseline" + at, "3 * min_over_time(contend:inflight" + at + "[30m])",
			}},
		}},
		// A threshold of the sum is of the job, and a difference becomes a line.
		{"herd", []drawn{
			{"Requests that arrive per second", "reqps", nil, []string{"contend:arrivals" + at}},
			{"Requests that began, all of the job", "reqps", nil, []string{
				`sum by (job) (contend:arrivals{job=~"$job"})`, `2 * contend:arrivals:peak{job=~"$job"}`, `2 * contend:arrivals:peak{job=~"$job"} + 30 / 60`,
			}},
			{"Requests that began, the highest of the last hour", "reqps", []float64{10. / 60}, []string{`contend:arrivals:peak{job=~"$job"}`}},
			{"Requests that began, mean of the job's instances", "reqps", nil, []string{
				`avg by (job) (contend:arrivals{job=~"$job"})`, `2 * contend:arrivals:mean_peak{job=~"$job"}`,
			}},
		}},
		// Whether there is any (> 0, == 0) is no threshold.
		{"hungrequests", []drawn{
			{"Requests in flight that do not finish", "short", nil, []string{
				"contend:inflight" + at + " - (contend:completions" + at + " * contend:latency" + at + " or 0 * contend:inflight" + at + ")",
				"0.5 * contend:inflight" + at,
			}},
			{"Requests being served now", "short", []float64{10}, []string{"contend:inflight" + at, "3 * contend:inflight:baseline" + at}},
		}},
		{"memorygrowth", []drawn{
			{"Share of the memory limit in use", "percentunit", []float64{0.5}, []string{"contend:memory" + at + " / contend:memory_limit" + at}},
			{"Memory in use, extrapolated", "bytes", nil, []string{"predict_linear(contend:memory" + at + "[2m], 300)", "contend:memory_limit" + at}},
			{"Requests being served now", "short", []float64{5}, []string{"contend:inflight" + at, "1.5 * contend:inflight:baseline" + at}},
			{"Open client connections", "short", nil, []string{"contend:connections" + at, "1.5 * contend:connections:baseline" + at}},
		}},
	} {
		var got []drawn
		for _, p := range rowOf(t, tt.detector) {
			d := drawn{title: p.Title, unit: p.FieldConfig.Defaults.Unit}
			for _, s := range p.FieldConfig.Defaults.Thresholds.Steps {
				if s.Value != nil {
					d.constants = append(d.constants, *s.Value)
				}
			}
			for _, q := range p.Targets {
				query, _, _ := strings.Cut(q.Expr, " and on (job, instance) topk by (job) ($worst, ")
				if query != q.Expr {
					query = strings.TrimSuffix(strings.TrimPrefix(query, "("), ")")
				}
				d.lines = append(d.lines, query)
			}
			got = append(got, d)
		}
		if a, b := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", tt.want); a != b {
			t.Errorf("%s: saw\n%s\nwant\n%s", tt.detector, a, b)
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

// TestThresholdsFollow changes a detector's threshold and looks for it
// everywhere: nowhere else is it written.
func TestThresholdsFollow(t *testing.T) {
	t.Parallel()
	for _, d := range all.Detectors() {
		if d.Name != "inflightcpu" {
			continue
		}
		changed := *d
		changed.Signals = slices.Clone(d.Signals)
		changed.Signals[0].Expr = strings.ReplaceAll(d.Signals[0].Expr, "{{ratio=3}}", "{{ratio=7}}")
		files, err := dashboards.Generate([]*detect.Detector{&changed}, standard)
		if err != nil {
			t.Fatal(err)
		}
		overview := string(files[0].Data)
		if n := strings.Count(overview, "(7 * contend:inflight_per_cpu:baseline"); n != 2 || strings.Contains(overview, "3 * contend:inflight_per_cpu:baseline") {
			t.Errorf("expected the new threshold as a line of two panels and the old one nowhere, saw %d", n)
		}
		return
	}
	t.Fatal("there is no detector inflightcpu")
}
