package dashboards_test

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v2"

	"github.com/contend/contend/dashboards"
)

// board is what of a dashboard's JSON is checked.
type board struct {
	ID            *int
	UID           string
	Title         string
	Description   string
	Editable      *bool
	SchemaVersion int
	Panels        []panel
	Templating    struct{ List []variable }
	Annotations   struct{ List []annotation }
}

type panel struct {
	ID                       int
	Type, Title, Description string
	Datasource               *source
	GridPos                  struct{ X, Y, W, H int }
	Panels                   []panel
	Targets                  []target
	Links                    []struct{ URL string }
	Repeat                   string
	Collapsed                bool
	Options                  struct{ Content string }
	FieldConfig              struct {
		Defaults struct {
			Unit       string
			Thresholds struct {
				Steps []struct{ Value *float64 }
			}
		}
		Overrides []struct {
			Properties []struct {
				ID    string
				Value any
			}
		}
	}
}

type source struct{ Type, UID string }

type target struct {
	RefID, Expr, LegendFormat string
	Datasource                source
	Instant                   bool
}

type variable struct {
	Name, Label, Type, Query, AllValue string
	Multi, IncludeAll                  bool
	Refresh                            int
	Datasource                         *source
}

type annotation struct {
	Name, Expr string
	Datasource source
}

func read(t *testing.T, f dashboards.File) board {
	t.Helper()
	var b board
	if err := json.Unmarshal(f.Data, &b); err != nil {
		t.Fatalf("%s: %v", f.Name, err)
	}
	return b
}

// all are the panels of a board without rows, those in closed rows too.
func (b board) all() []panel {
	return slices.DeleteFunc(b.flat(), func(p panel) bool { return p.Type == "row" })
}

func (b board) flat() []panel {
	var out []panel
	for _, p := range b.Panels {
		out = append(append(out, p), p.Panels...)
	}
	return out
}

// units are Grafana's that we use:
// https://github.com/grafana/grafana/blob/main/packages/grafana-data/src/valueFormats/categories.ts
var units = []string{"short", "bytes", "cps", "ops", "percentunit", "reqps", "s"}

// fill replaces the dashboard's variables.
func fill(expr string, values map[string]string) string {
	return variableName.ReplaceAllStringFunc(expr, func(name string) string {
		if v, ok := values[name[1:]]; ok {
			return v
		}
		return name
	})
}

var variableName = regexp.MustCompile(`\$[a-z_]+`)

var someValues = map[string]string{"job": ".+", "instance": ".+", "worst": "5", "worst_instance": "a", "__range": "1h", "__interval": "15s"}

func mustParse(t *testing.T, where, expr string) parser.Expr {
	t.Helper()
	filled := fill(expr, someValues)
	e, err := parser.NewParser(parser.Options{}).ParseExpr(filled)
	if err != nil {
		t.Fatalf("%s: %q: %v", where, filled, err)
	}
	if strings.Contains(filled, "$") {
		t.Errorf("%s: %q has a variable that the dashboard does not have", where, filled)
	}
	return e
}

// TestLint holds the dashboards to what Grafana's dashboard-linter and its
// import expect. https://github.com/grafana/dashboard-linter/tree/main/docs/rules
func TestLint(t *testing.T) {
	t.Parallel()
	excluded := exclusions(t)
	for _, f := range boards(t, standard) {
		b := read(t, f)
		if b.ID != nil || b.UID == "" || b.Title == "" || b.Description == "" || b.SchemaVersion != 39 || b.Editable == nil || *b.Editable {
			t.Errorf("%s: expected no id, a uid, a title, a description, the schema of Grafana 10 and 11 and that it is not editable", f.Name)
		}
		variables := map[string]variable{}
		for _, v := range b.Templating.List {
			variables[v.Name] = v
			if v.Type == "query" {
				if v.Refresh != 2 || v.Datasource == nil || v.Datasource.UID != "${datasource}" {
					t.Errorf("%s: variable %s: expected the dashboard's data source, asked anew as the time changes", f.Name, v.Name)
				}
				mustParse(t, f.Name, inner.FindStringSubmatch(v.Query)[1])
			}
		}
		if v := variables["datasource"]; v.Type != "datasource" || v.Label != "Data source" || v.Query != "prometheus" {
			t.Errorf("%s: saw the data source %+v", f.Name, v)
		}
		for name, label := range map[string]string{"job": "Job", "instance": "Instance"} {
			if v := variables[name]; v.Type != "query" || v.Label != label || !v.Multi || v.IncludeAll != (name == "instance") || v.AllValue != ".+" {
				t.Errorf("%s: saw the variable %s %+v", f.Name, name, v)
			}
		}
		ids := map[int]bool{}
		cells := map[[2]int]string{}
		for _, p := range b.flat() {
			if p.Title == "" || p.ID == 0 || ids[p.ID] {
				t.Errorf("%s: panel %q: expected a title and an id of its own", f.Name, p.Title)
			}
			ids[p.ID] = true
			for x := range p.GridPos.W {
				for y := range p.GridPos.H {
					at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
					if cells[at] != "" {
						t.Fatalf("%s: panels %q and %q lie upon each other", f.Name, cells[at], p.Title)
					}
					cells[at] = p.Title
				}
			}
		}
		for _, p := range b.all() {
			where := f.Name + ": panel " + p.Title
			if p.Description == "" {
				t.Errorf("%s: expected a description", where)
			}
			if p.GridPos.W < 6 || p.GridPos.X+p.GridPos.W > 24 || p.GridPos.H < 5 {
				t.Errorf("%s: expected a quarter of the width or more, within 24 columns, saw %+v", where, p.GridPos)
			}
			if p.Type == "text" {
				continue
			}
			if p.Datasource == nil || p.Datasource.UID != "${datasource}" || !slices.Contains(units, p.FieldConfig.Defaults.Unit) || len(p.Targets) == 0 {
				t.Errorf("%s: expected the dashboard's data source, a unit and queries", where)
			}
			for _, o := range p.FieldConfig.Overrides {
				for _, property := range o.Properties {
					if property.ID == "unit" && !slices.Contains(units, property.Value.(string)) {
						t.Errorf("%s: unknown unit %v", where, property.Value)
					}
				}
			}
			refs := map[string]bool{}
			for i, q := range p.Targets {
				if q.Datasource.UID != "${datasource}" || q.RefID == "" || refs[q.RefID] {
					t.Errorf("%s: query %d: expected the dashboard's data source and an id of its own", where, i)
				}
				refs[q.RefID] = true
				mustParse(t, where, q.Expr)
				e, err := parser.NewParser(parser.Options{}).ParseExpr(fill(q.Expr, map[string]string{"worst": "5", "__range": "1h", "__interval": "15s"}))
				if err != nil {
					t.Fatalf("%s: query %d: %v", where, i, err)
				}
				everywhere := map[string]bool{"target-job-rule": true, "target-instance-rule": true}
				for _, selector := range parser.ExtractSelectors(e) {
					matchers := map[string]string{}
					for _, m := range selector {
						matchers[m.Name] = m.Type.String() + m.Value
					}
					if matchers["job"] != "=~$job" && p.Title != "Alerts" || strings.HasSuffix(matchers["__name__"], "_total") {
						t.Errorf("%s: query %d: expected selectors of $job, and no counters: %s", where, i, q.Expr)
					}
					for rule, label := range map[string]string{"target-job-rule": "job", "target-instance-rule": "instance"} {
						everywhere[rule] = everywhere[rule] && matchers[label] == "=~$"+label
					}
				}
				for rule, all := range everywhere {
					key := exclusion{rule, entry{b.Title, p.Title, i}}
					if all == excluded[key] {
						t.Errorf("%s: query %d: %s: kept by every selector: %v, excluded in .lint: %v", where, i, rule, all, excluded[key])
					}
					delete(excluded, key)
				}
			}
		}
		if len(ids) < 10 {
			t.Errorf("%s: expected more than %d panels", f.Name, len(ids))
		}
		if len(b.Annotations.List) < 3 {
			t.Errorf("%s: expected annotations of triggers, causes and symptoms", f.Name)
		}
		for _, a := range b.Annotations.List {
			if a.Datasource.UID != "${datasource}" {
				t.Errorf("%s: annotation %s has another data source", f.Name, a.Name)
			}
			mustParse(t, f.Name, a.Expr)
		}
	}
	for e := range excluded {
		t.Errorf(".lint excludes %+v, which no dashboard has", e)
	}
}

// TestImport holds the dashboards to what both ways into Grafana take: the import
// of the UI asks for what __inputs name, and file provisioning fills in nothing, so
// that a data source has to be a variable; a row that is open has its panels after
// it, below each other, and one that is closed has them in it.
func TestImport(t *testing.T) {
	t.Parallel()
	for _, f := range boards(t, standard) {
		var top map[string]json.RawMessage
		if err := json.Unmarshal(f.Data, &top); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"id", "version", "__inputs", "__requires", "__elements", "dashboard"} {
			if _, has := top[name]; has {
				t.Errorf("%s: expected no %q, which is of one Grafana, or of one way to import", f.Name, name)
			}
		}
		if bytes.Contains(f.Data, []byte("${DS_")) {
			t.Errorf("%s: has an input that provisioning does not fill in", f.Name)
		}
		b := read(t, f)
		if v := b.Templating.List[0]; v.Name != "datasource" {
			t.Errorf("%s: expected the data source before the variables that ask it, saw %s first", f.Name, v.Name)
		}
		y := 0
		for i, p := range b.flat() {
			switch {
			case p.GridPos.Y < y:
				t.Errorf("%s: panel %q stands above the one before it", f.Name, p.Title)
			case p.Type == "row" && (p.GridPos.X != 0 || p.GridPos.W != 24 || p.GridPos.H != 1):
				t.Errorf("%s: row %q lies at %+v", f.Name, p.Title, p.GridPos)
			case p.Type != "row" && i > 0 && p.GridPos.Y == 0:
				t.Errorf("%s: panel %q has no place", f.Name, p.Title)
			}
			y = p.GridPos.Y
		}
	}
}

// inner is the PromQL in a variable's query.
var inner = regexp.MustCompile(`^(?:label_values|query_result)\((.+?)(?:, [a-z]+)?\)$`)

type entry struct {
	Dashboard, Panel string
	TargetIdx        int `yaml:"targetIdx"`
}

// exclusion is of one rule of the linter.
type exclusion struct {
	rule string
	entry
}

// exclusions are what .lint has the linter pass over: single queries, with a reason.
func exclusions(t *testing.T) map[exclusion]bool {
	t.Helper()
	out := map[exclusion]bool{}
	for _, f := range generate(t, standard) {
		if f.Name != ".lint" {
			continue
		}
		var file struct {
			Exclusions map[string]struct {
				Reason  string
				Entries []entry
			}
		}
		if err := yaml.UnmarshalStrict(f.Data, &file); err != nil {
			t.Fatal(err)
		}
		for rule, e := range file.Exclusions {
			if e.Reason == "" {
				t.Errorf("saw an exclusion of %s for the reason %q", rule, e.Reason)
			}
			for _, x := range e.Entries {
				out[exclusion{rule, x}] = true
			}
		}
	}
	if len(out) == 0 {
		t.Fatal("there is no .lint, or it excludes nothing")
	}
	return out
}
