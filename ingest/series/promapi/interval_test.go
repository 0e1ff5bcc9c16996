package promapi

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/contend/contend/ingest/series/memory"
)

func TestInterval(t *testing.T) {
	t.Parallel()
	raw := func(seconds ...float64) string {
		var at float64
		var points []string
		for _, s := range seconds {
			at += s
			points = append(points, fmt.Sprintf(`[%.3f,"1"]`, 1_700_000_000+at))
		}
		return `{"metric":{"instance":"` + fmt.Sprint(seconds) + `"},"values":[` + strings.Join(points, ",") + `]}`
	}
	const up, goroutines = `{__name__="up",job="g"}`, `{__name__="go_goroutines",job="g"}`
	tests := []struct {
		name    string
		answers map[string]string
		want    time.Duration
	}{
		{"jitter", map[string]string{up + "[10m]": raw(0, 14.99, 15.01, 14.99, 15.003)}, 15 * time.Second},
		{"one of three lost", map[string]string{up + "[10m]": raw(0, 15, 30, 15, 30, 15, 30)}, 15 * time.Second},
		{"restart", map[string]string{up + "[10m]": raw(0, 30, 30, 0.2, 30, 200, 30)}, 30 * time.Second},
		{"most targets", map[string]string{up + "[10m]": raw(0, 60) + "," + raw(0, 15, 15, 15)}, 15 * time.Second},
		{"fast", map[string]string{up + "[10m]": raw(0, 0.251, 0.25, 0.249)}, 250 * time.Millisecond},
		{"odd", map[string]string{up + "[10m]": raw(0, 0.033, 0.033)}, 33 * time.Millisecond},
		{"gone by the end", map[string]string{up + "[2h]": raw(0, 60, 60)}, time.Minute},
		{"no up", map[string]string{goroutines + "[10m]": raw(0, 10, 10)}, 10 * time.Second},
		{"one sample", map[string]string{up + "[10m]": raw(0)}, 0},
		{"nothing", nil, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, _ := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
				if strings.Contains(r.URL.Path, "label") {
					io.WriteString(w, success(`["ALERTS","a:rule","a_bucket","go_goroutines"]`))
					return
				}
				io.WriteString(w, matrix(strings.Fields(tt.answers[r.PostFormValue("query")])...))
			})
			got, err := a.Interval(t.Context(), `job="g"`, t0, t0.Add(5*time.Hour))
			if err != nil || got != tt.want {
				t.Errorf("got %v, %v, want %v", got, err, tt.want)
			}
		})
	}
}

// TestIntervalOfFile: of the same series a server and a file have the same interval.
func TestIntervalOfFile(t *testing.T) {
	t.Parallel()
	// spaced are the seconds before the end of n scrapes, the last of them at last.
	spaced := func(n int, step, last float64, keep func(i int) bool) (out []float64) {
		for i := range n {
			if keep == nil || keep(i) {
				out = append(out, last+step*float64(n-1-i))
			}
		}
		return out
	}
	third := func(i int) bool { return i%3 != 1 }
	for name, tt := range map[string]struct {
		series map[string][]float64 // by name and instance, the seconds before the end
		want   time.Duration
	}{
		"15 s":                 {map[string][]float64{"up 1": spaced(100, 15, 3, nil)}, 15 * time.Second},
		"14.99 s":              {map[string][]float64{"up 1": spaced(100, 14.99, 3, nil)}, 15 * time.Second},
		"a late minute":        {map[string][]float64{"up 1": spaced(100, 60.9, 3, nil)}, time.Minute},
		"29 s":                 {map[string][]float64{"up 1": spaced(100, 29, 3, nil)}, 29 * time.Second},
		"13.7 s":               {map[string][]float64{"up 1": spaced(100, 13.7, 3, nil)}, 13500 * time.Millisecond}, // the roundest within 2 %
		"faster than the wall": {map[string][]float64{"up 1": spaced(100, 0.252, 0, nil)}, 250 * time.Millisecond},
		"every third lost":     {map[string][]float64{"up 1": spaced(90, 30, 3, third)}, 30 * time.Second},
		"changed at the end":   {map[string][]float64{"up 1": append(spaced(100, 60, 400, nil), spaced(26, 15, 3, nil)...)}, 15 * time.Second},
		"a third is faster":    {map[string][]float64{"up 1": spaced(30, 15, 3, nil), "up 2": spaced(30, 15, 3, nil), "up 3": spaced(100, 20, 3, nil), "up 4": spaced(100, 20, 3, nil), "up 5": spaced(100, 20, 3, nil), "up 6": spaced(100, 20, 3, nil)}, 20 * time.Second},
		"gone an hour before":  {map[string][]float64{"up 1": spaced(100, 10, 3600, nil), "x 1": spaced(100, 60, 3, nil)}, 10 * time.Second},
		"no up":                {map[string][]float64{"a:rule 1": spaced(100, 60, 3, nil), "b 1": spaced(100, 15, 3, nil), "c 1": spaced(100, 30, 3, nil), "c 2": spaced(100, 30, 3, nil)}, 15 * time.Second},
		"one sample":           {map[string][]float64{"up 1": {3}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			end := t0.Add(5 * time.Hour)
			store := memory.New()
			var names []string
			for key, before := range tt.series {
				metric, instance, _ := strings.Cut(key, " ")
				names = append(names, strconv.Quote(metric))
				var ts []int64
				var vs []float64
				for _, s := range before {
					ts, vs = append(ts, end.UnixMilli()-int64(s*1000)), append(vs, 1)
				}
				store.Append(labels.FromStrings("__name__", metric, "job", "g", "instance", instance), ts, vs)
			}
			slices.Sort(names)
			query := regexp.MustCompile(`^\{__name__="([^"]+)",job="g"\}\[(\w+)\]$`)
			a, _ := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
				if strings.Contains(r.URL.Path, "label") {
					io.WriteString(w, success("["+strings.Join(slices.Compact(names), ",")+"]"))
					return
				}
				m := query.FindStringSubmatch(r.PostFormValue("query"))
				if m == nil {
					t.Errorf("asked for %s", r.PostFormValue("query"))
					return
				}
				window, err := model.ParseDuration(m[2])
				if err != nil {
					t.Error(err)
				}
				var found []string
				for _, key := range slices.Sorted(maps.Keys(tt.series)) {
					var points []string
					for _, s := range tt.series[key] {
						if s <= time.Duration(window).Seconds() {
							points = append(points, fmt.Sprintf(`[%.3f,"1"]`, float64(end.UnixMilli()-int64(s*1000))/1000))
						}
					}
					if metric, instance, _ := strings.Cut(key, " "); metric == m[1] && len(points) > 0 {
						found = append(found, `{"metric":{"instance":"`+instance+`"},"values":[`+strings.Join(points, ",")+`]}`)
					}
				}
				io.WriteString(w, matrix(found...))
			})
			server, err := a.Interval(t.Context(), `job="g"`, t0, end)
			if err != nil || server != tt.want {
				t.Errorf("server: got %v, %v, want %v", server, err, tt.want)
			}
			file, err := store.Interval(t.Context(), `job="g"`, t0, end)
			if err != nil || file != tt.want {
				t.Errorf("file: got %v, %v, want %v", file, err, tt.want)
			}
		})
	}
}
