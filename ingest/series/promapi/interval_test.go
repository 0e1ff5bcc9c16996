package promapi

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
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
