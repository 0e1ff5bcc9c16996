package backtest

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/contend/contend/ingest/series/memory"
	"github.com/contend/contend/ingest/series/promapi"
)

// TestNativeHistograms holds that a rule whose native histograms a replay would lose is
// not replayed, nor an alert that it feeds, and the others are.
func TestNativeHistograms(t *testing.T) {
	t.Parallel()
	const rules = `
groups:
  - name: g
    rules:
      - {record: "job:h", expr: "sum by (job) (rate(h[5m]))"}
      - {record: "job:p90", expr: "histogram_quantile(0.9, job:h)"}
      - {record: "job:count", expr: "histogram_count(sum(rate(h[5m])))"}
      - {record: "job:requests", expr: "sum by (job) (requests)"}
      - {alert: FromRecord, expr: "job:p90 > 1"}
      - {alert: Beside, expr: "histogram_count(h) > 0 and on () job:requests > 100"}
      - {alert: Itself, expr: "rate(h[1s])"}
      - {alert: Gone, expr: "absent(h) and on () vector(0) > 1"}
      - {alert: Whole, expr: "histogram_quantile(0.9, sum(rate(h[5m]))) > 1e9"}
      - {alert: FromCount, expr: "job:count > 1e9"}
      - {alert: Other, expr: "job:requests > 100"}
`
	outcomes := func(src Source, failed string) {
		t.Helper()
		r := run1(t, src, mustParse(t, rules), 200, 0)
		for _, a := range r.Alerts {
			want := ConditionFalse
			if strings.Contains(failed, a.Alert) {
				want = Failed
			}
			if a.Outcome != want || (want == Failed) != strings.Contains(a.Error, "h has native histograms, which are not ") {
				t.Errorf("server %v, %s: %s %q, want %s", src.server, a.Alert, a.Outcome, a.Error, want)
			}
		}
	}

	// A server says that all samples of h are histograms.
	store := some()
	column(store, labels.FromStrings("__name__", "h", "job", "a"), strings.Repeat("1 ", 200))
	inner := serve(t, store)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		r.Form.Set("query", strings.ReplaceAll(r.Form.Get("query"), "count(histogram_count(h))", "count(h)"))
		inner.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	api, err := promapi.New(s.URL, nil, promapi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	outcomes(FromServer(api), "FromRecord Beside Itself")
	outcomes(server(t, store), "")

	// Of a file, none of them is kept.
	store = some()
	if _, err := store.Load("f", strings.NewReader("{__name__=\"h\", job=\"a\"} {count:5, sum:18.4, (0.5,1]:3} 1790000000000\n"), memory.LoadOptions{Format: memory.Dump}); err != nil {
		t.Fatal(err)
	}
	outcomes(FromStore(store), "FromRecord Beside Itself Gone Whole FromCount")
}

// TestNoHistogramFunction holds that a server which has no function for native
// histograms has none, and that one which does not answer is told of.
func TestNoHistogramFunction(t *testing.T) {
	t.Parallel()
	for answer, note := range map[string]string{
		`{"status":"error","errorType":"bad_data","error":"unknown function with name \"histogram_count\""}`: "",
		`{"status":"error","errorType":"execution","error":"too many samples"}`:                              "whether rules lose native histograms is not known: ",
	} {
		inner := serve(t, some())
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.FormValue("query"), "histogram_count") {
				http.Error(w, answer, http.StatusBadRequest)
				return
			}
			inner.Config.Handler.ServeHTTP(w, r)
		}))
		t.Cleanup(s.Close)
		api, err := promapi.New(s.URL, nil, promapi.Options{})
		if err != nil {
			t.Fatal(err)
		}
		r := run1(t, FromServer(api), mustParse(t, `groups: [{name: g, rules: [{record: a, expr: sum(requests)}, {alert: A, expr: a > 5}]}]`), 200, 0)
		if notes := strings.Join(r.Notes, "\n"); r.Alerts[0].Outcome != Fired || (note == "") != (notes == "") || !strings.Contains(notes, note) {
			t.Errorf("%s: %s, notes %q, want %q", answer, r.Alerts[0].Outcome, notes, note)
		}
	}
}
