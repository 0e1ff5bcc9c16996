package all_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/contend/contend"

type listed struct {
	ImportPath                string
	Imports                   []string
	TestImports, XTestImports []string
	Deps                      []string // of the package without its tests
}

// packages lists the module's packages with what they import.
func packages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports,Deps", module+"/...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var all []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if len(all) < 10 {
		t.Fatalf("go list found %d packages, expected the module's", len(all))
	}
	return all
}

// notDetectors are the folders under detect that are no detectors.
var notDetectors = map[string]bool{"all": true, "report": true, "cases": true, "contendtest": true, "headroom": true}

// layer says where a package stands: 0 ingest and headroom, 1 detect, 2 what takes detectors
// or a report, 3 the list of all detectors, 4 commands and what is for benchmarks alone. Imports point to a lower
// layer. The demo stands apart: -1.
func layer(path string) (int, string) {
	rel := strings.TrimPrefix(path, module+"/")
	top, rest, _ := strings.Cut(rel, "/")
	switch {
	case rel == "rules/rulestest":
		return 4, ""
	case top == "ingest", rel == "detect/headroom": // arithmetic, for whom it may concern
		return 0, ""
	case rel == "detect":
		return 1, ""
	case top == "detect" && rest == "all":
		return 3, ""
	case top == "detect" && !notDetectors[rest]:
		return 2, "detector " + rest
	case top == "detect", top == "rules", top == "dashboards":
		return 2, rel
	case top == "cmd":
		return 4, ""
	}
	return -1, ""
}

func TestImportsPointOneWay(t *testing.T) {
	t.Parallel()
	demo := 0
	for _, p := range packages(t) {
		from, self := layer(p.ImportPath)
		if from == -1 {
			demo++
			if !strings.HasPrefix(p.ImportPath, module+"/demo/") {
				t.Errorf("%s is in none of cmd, dashboards, demo, detect, ingest and rules", p.ImportPath)
			}
			// A stranger's service, also in its tests.
			for _, imp := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
				if strings.HasPrefix(imp, module+"/") && !strings.HasPrefix(imp, module+"/demo/") {
					t.Errorf("%s is the demo's, a stranger's service, and imports %s", p.ImportPath, imp)
				}
			}
			continue
		}
		for _, imp := range p.Imports {
			if !strings.HasPrefix(imp, module+"/") {
				continue
			}
			to, other := layer(imp)
			switch {
			case to == -1 && from == 4:
			case to == -1:
				t.Errorf("%s imports the demo's %s, as only commands and tests may", p.ImportPath, imp)
			case from < to, from == to && self != other:
				t.Errorf("%s imports %s: imports point from cmd to detectors, report and rules, to detect, to ingest", p.ImportPath, imp)
			}
		}
	}
	if demo == 0 {
		t.Error("found no package of the demo")
	}
}

// TestBinaryIsLight guards what the command pulls in: packages of tests, and
// Prometheus' server packages, which weigh tens of megabytes.
func TestBinaryIsLight(t *testing.T) {
	t.Parallel()
	forbidden := []string{"testing", "github.com/stretchr/testify", "github.com/prometheus/prometheus/tsdb/index", "github.com/prometheus/prometheus/tsdb/wlog", "github.com/prometheus/prometheus/config", "github.com/prometheus/prometheus/notifier", "github.com/prometheus/prometheus/promql/promqltest", "github.com/prometheus/prometheus/rules", "github.com/prometheus/prometheus/scrape", "k8s.io/"}
	found := false
	for _, p := range packages(t) {
		if p.ImportPath != module+"/cmd/contend" {
			continue
		}
		found = true
		for _, dep := range p.Deps {
			for _, f := range forbidden {
				if dep == f || strings.HasPrefix(dep, strings.TrimSuffix(f, "/")+"/") {
					t.Errorf("the command depends on %s", dep)
				}
			}
		}
	}
	if !found {
		t.Fatal("cmd/contend is not among the packages")
	}
}
