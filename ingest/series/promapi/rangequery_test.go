package promapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
)

func steps(r *http.Request, series int) string {
	number := func(name string) int64 {
		f, err := strconv.ParseFloat(r.FormValue(name), 64)
		if err != nil {
			panic(err)
		}
		return int64(f*1000 + 0.5)
	}
	start, end, step := number("start"), number("end"), number("step")
	var out []string
	for i := range int64(series) {
		var points []string
		for at := start; at <= end; at += step {
			if n := (at - t0.UnixMilli()) / step; n%(i+1) == 0 {
				points = append(points, fmt.Sprintf(`[%s,"%d"]`, timeParam(at), n*(i+1)))
			}
		}
		if len(points) > 0 {
			// Not sorted by label, as servers other than Prometheus have it.
			out = append(out, fmt.Sprintf(`{"metric":{"i":"%d"},"values":[%s]}`, int64(series)-i, strings.Join(points, ",")))
		}
	}
	return matrix(out...)
}

func rangeOf(t *testing.T, a *API, points int, step time.Duration) (promql.Matrix, error) {
	t.Helper()
	return a.Range(t.Context(), "x", t0, t0.Add(time.Duration(points-1)*step+step/2), step)
}

func TestRangeParts(t *testing.T) {
	t.Parallel()
	const points, series = 1003, 150 // some series are not in each part
	whole, _ := serve(t, Options{MaxPoints: points}, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, steps(r, series)) })
	want, err := rangeOf(t, whole, points, 250*time.Millisecond)
	if err != nil || len(want) != series {
		t.Fatalf("%d series, %v", len(want), err)
	}
	total := 0
	for i, s := range want {
		total += len(s.Floats)
		if i > 0 && labels.Compare(want[i-1].Metric, s.Metric) >= 0 {
			t.Fatalf("not sorted: %v", s.Metric)
		}
	}
	for _, size := range []int{1, 7, 100, 1002, 1004} {
		var requests atomic.Int64
		a, _ := serve(t, Options{MaxPoints: size, MaxSamples: total}, func(w http.ResponseWriter, r *http.Request) {
			requests.Add(1)
			io.WriteString(w, steps(r, series))
		})
		got, err := rangeOf(t, a, points, 250*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		if got.String() != want.String() {
			t.Errorf("parts of %d differ from the whole", size)
		}
		if n := requests.Load(); n != int64((points+size-1)/size) {
			t.Errorf("parts of %d: %d requests", size, n)
		}
	}
	a, _ := serve(t, Options{MaxPoints: 100, MaxSamples: total - 1}, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, steps(r, series)) })
	if _, err := rangeOf(t, a, points, 250*time.Millisecond); !errors.Is(err, errTooManySamples) {
		t.Errorf("got %v, want too many samples", err)
	}
}

func TestRangeAtBounds(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	a, _ := serve(t, Options{MaxPoints: 10}, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		io.WriteString(w, steps(r, 1))
	})
	got, err := a.Range(t.Context(), "x - x @ start ( )", t0, t0.Add(99*time.Second), time.Second)
	if err != nil || len(got) != 1 || len(got[0].Floats) != 100 || requests.Load() != 1 {
		t.Errorf("got %d requests, %v, %v", requests.Load(), got, err)
	}
}

func TestRangeRetry(t *testing.T) {
	t.Parallel()
	fail := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(code)
			io.WriteString(w, body)
		}
	}
	hangUp := func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }
	cutOff := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "10000")
		io.WriteString(w, matrix(`{"metric":{},"values":[[1700000000,"1"]]}`)[:80])
	}
	short := func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, `{"status":"success","data":{"res`) }
	slow := func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // net/http looks for the end of a connection only then
		<-r.Context().Done()
	}
	tooMuch := fail(422, `{"status":"error","errorType":"execution","error":"query processing would load too many samples into memory in query execution"}`)
	bad := fail(422, `{"status":"error","errorType":"execution","error":"many-to-many matching not allowed"}`)
	tests := []struct {
		name  string
		fail  http.HandlerFunc
		times int64
		sizes string // steps of each request
		err   string
	}{
		{"502", fail(502, "bad gateway"), 1, "[200 100 100 100 100]", ""},
		{"503 timeout", fail(503, `{"status":"error","errorType":"timeout","error":"query timed out"}`), 1, "[200 100 100 100 100]", ""},
		{"429", fail(429, ""), 1, "[200 100 100 100 100]", ""},
		{"hangs up", hangUp, 1, "[200 100 100 100 100]", ""},
		{"cut off", cutOff, 1, "[200 100 100 100 100]", ""},
		{"short", short, 1, "[200 100 100 100 100]", ""},
		{"slow", slow, 1, "[200 100 100 100 100]", ""},
		{"too much", tooMuch, 1, "[200 100 100 100 100]", ""},
		{"twice", fail(500, "out of order"), 2, "[200 100]", "500 Internal Server Error (out of order) | see the server's log"},
		{"hangs up twice", hangUp, 2, "[200 100]", "connection closed"},
		{"cut off twice", cutOff, 2, "[200 100]", "cut off after 80 bytes"},
		{"slow twice", slow, 2, "[200 100]", "within 500ms | try a shorter --since"},
		{"too much twice", tooMuch, 2, "[200 100]", "too many samples into memory | try a shorter --since"},
		{"of no use", bad, 1, "[200]", "many-to-many | check the expression"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			opt := Options{MaxPoints: 200}
			if strings.HasPrefix(tt.name, "slow") {
				opt.Timeout = 500 * time.Millisecond
			}
			var n atomic.Int64
			var sizes []int64 // requests of one Range come one after the other
			a, s := serve(t, opt, func(w http.ResponseWriter, r *http.Request) {
				start, _ := strconv.ParseInt(r.FormValue("start"), 10, 64)
				end, _ := strconv.ParseInt(r.FormValue("end"), 10, 64)
				sizes = append(sizes, end-start+1)
				if n.Add(1) <= tt.times {
					tt.fail(w, r)
					return
				}
				io.WriteString(w, steps(r, 3))
			})
			got, err := rangeOf(t, a, 400, time.Second)
			s.Close()
			if fmt.Sprint(sizes) != tt.sizes {
				t.Errorf("asked for %v, want %v", sizes, tt.sizes)
			}
			if tt.err == "" {
				if err != nil || len(got) != 3 || len(got[2].Floats) != 400 {
					t.Errorf("got %d series, %v", len(got), err)
				}
				return
			}
			if _, ok := errors.AsType[*QueryError](err); !ok {
				t.Fatalf("got %v", err)
			}
			wantParts(t, err.Error(), tt.err+" | `x`")
		})
	}
}

// Who waited for an answer waits once more for less of it, and no longer.
func TestRangeSlow(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	var sizes []int64
	a, s := serve(t, Options{MaxPoints: 240, Timeout: 300 * time.Millisecond}, func(w http.ResponseWriter, r *http.Request) {
		start, _ := strconv.ParseInt(r.FormValue("start"), 10, 64)
		end, _ := strconv.ParseInt(r.FormValue("end"), 10, 64)
		sizes = append(sizes, end-start+1)
		if n.Add(1) != 2 {
			io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
			return
		}
		io.WriteString(w, steps(r, 1))
	})
	_, err := rangeOf(t, a, 480, time.Second)
	s.Close()
	if !errors.Is(err, context.DeadlineExceeded) || fmt.Sprint(sizes) != "[240 120 120]" {
		t.Errorf("asked for %v, got %v", sizes, err)
	}
}

// What exceeds a limit of contend is asked for once.
func TestRangeLimits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		opt      Options
		requests int64
		want     string // "" is no error
	}{
		{"as many series", Options{MaxSeries: 3}, 2, ""},
		{"series", Options{MaxSeries: 2}, 1, "at most 2 series, saw more; try a narrower --selector"},
		{"samples", Options{MaxSamples: 5}, 1, "at most 5 samples, saw more | --since"},
		{"bytes", Options{MaxBytes: 300}, 1, "at most 300 bytes, saw more | --since"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var n atomic.Int64
			tt.opt.MaxPoints = 200
			a, _ := serve(t, tt.opt, func(w http.ResponseWriter, r *http.Request) {
				n.Add(1)
				io.WriteString(w, steps(r, 3))
			})
			_, err := rangeOf(t, a, 400, time.Second)
			if n.Load() != tt.requests {
				t.Errorf("%d requests, want %d", n.Load(), tt.requests)
			}
			if tt.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantError(t, err, isQueryError, tt.want)
		})
	}
}

// Series that come and go add up over the parts of a window.
func TestRangeChurn(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	a, _ := serve(t, Options{MaxSeries: 2, MaxPoints: 100}, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, matrix(fmt.Sprintf(`{"metric":{"pod":"%d"},"values":[[%s,"1"]]}`, n.Add(1), r.FormValue("start"))))
	})
	if _, err := rangeOf(t, a, 200, time.Second); err != nil {
		t.Error(err)
	}
	_, err := rangeOf(t, a, 400, time.Second)
	wantError(t, err, isQueryError, "at most 2 series, saw more")
	if !errors.Is(err, errTooManySeries) {
		t.Errorf("%v does not wrap its reason", err)
	}
}

func TestRangeMoved(t *testing.T) {
	t.Parallel()
	a, _ := serve(t, Options{MaxPoints: 100}, func(w http.ResponseWriter, r *http.Request) {
		r.ParseForm()
		for _, key := range []string{"start", "end"} {
			f, _ := strconv.ParseFloat(r.Form.Get(key), 64)
			r.Form.Set(key, strconv.Itoa(int(f)/15*15))
		}
		io.WriteString(w, steps(r, 1))
	})
	got, err := a.Range(t.Context(), "x", t0, t0.Add(249*15*time.Second), 15*time.Second) // t0 is 5 s after a multiple of 15
	if err != nil || len(got) != 1 || len(got[0].Floats) != 250 {
		t.Fatalf("got %v, %v", got, err)
	}
	if w := a.Warnings(); len(w) != 1 || !strings.Contains(w[0], "as it rounds them") {
		t.Errorf("got %q", w)
	}
}

func TestRangeBadArguments(t *testing.T) {
	t.Parallel()
	a := connect(t, "http://127.0.0.1:1", nil, Options{})
	for _, tt := range []struct {
		end  time.Duration
		step time.Duration
		want string
	}{{time.Hour, 0, "whole milliseconds"}, {time.Hour, 1500 * time.Microsecond, "1.5ms"}, {-time.Second, time.Second, "an end after the start"}} {
		_, err := a.Range(t.Context(), "x", t0, t0.Add(tt.end), tt.step)
		if err == nil {
			t.Fatalf("%v: want an error", tt)
		}
		wantParts(t, err.Error(), tt.want)
	}
}
