package receive

import (
	"net/url"
	"path"
	"strings"
	"testing"
	"time"
)

func TestParseName(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, job, instance, key, err string }{
		{name: "gateway", job: "gateway", key: "gateway"},
		{name: " gateway { b = 1 , a=x=y, none= } ", job: "gateway", key: "gateway\na=x=y\nb=1"},
		{name: "gateway{}", job: "gateway", key: "gateway"},
		{name: "a.b/c-d_e{instance=10.0.0.1:80,pod=p}", job: "a.b/c-d_e", instance: "10.0.0.1:80", key: "a.b/c-d_e\ninstance=10.0.0.1:80\npod=p"},
		{name: "gateway{__session_id__=5f}", job: "gateway", instance: "5f", key: "gateway\n__session_id__=5f"},
		{name: "gateway{pod=p,__session_id__=5f}", job: "gateway", instance: "p", key: "gateway\n__session_id__=5f\npod=p"},
		// The goroutines and the waits of one process.
		{name: "gateway{otel.scope.name=com.grafana.pyroscope/go,otel.scope.version=v1.5.0,x=1}", job: "gateway", key: "gateway\nx=1"},
		{name: "gateway{otel.scope.name=com.grafana.pyroscope/godeltaprof,otel.scope.version=v0.1.12,x=1}", job: "gateway", key: "gateway\nx=1"},

		{name: strings.Repeat("j", maxJob), job: strings.Repeat("j", maxJob), key: strings.Repeat("j", maxJob)},
		{name: "a{pod=" + strings.Repeat("x", maxInstance) + "}", job: "a", instance: strings.Repeat("x", maxInstance), key: "a\npod=" + strings.Repeat("x", maxInstance)},
		{name: "a{pod=" + strings.Repeat("x", maxInstance-1) + "éy}", job: "a", instance: strings.Repeat("x", maxInstance-1) + "…", key: "a\npod=" + strings.Repeat("x", maxInstance-1) + "éy"},

		{name: "", err: "expected the parameter name"},
		{name: strings.Repeat("j", maxJob+1), err: "at most 255 bytes before its labels"},
		{name: "{a=b}", err: "before its labels"},
		{name: "../../etc{a=b", err: "expected one list of labels"},
		{name: "a b{}", err: "before its labels"},
		{name: "a{b=c}d", err: "expected one list of labels"},
		{name: "a{b=c}{d=e}", err: "expected one list of labels"},
		{name: "a{b=1,2}", err: `saw "2"`},
		{name: "a{b/c=1}", err: `saw "b/c"`},
		{name: "a{=1}", err: `saw ""`},
		{name: "a{b=1,b=2}", err: "saw b again"},
		{name: "a{b=,b=2}", err: "saw b again"},
		{name: "a{__name__=b}", err: "saw __name__ again"},
		{name: "a{b=\x1b[31m}", err: "control characters"},
		{name: "a{b=1\nc=2}", err: "control characters"},
		{name: "a{b=\xff}", err: "in UTF-8"},
		{name: "a{b=" + strings.Repeat("x", maxLabelValue+1) + "}", err: "at most 1024 bytes"},
		{name: "a{b=" + strings.Repeat("x", maxName) + "}", err: "at most 4096 bytes"},
		{name: "a{" + strings.Join(numbered(maxLabels+1), ",") + "}", err: "at most 40 labels"},
	} {
		p, err := parseName(tt.name)
		switch {
		case tt.err != "":
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%.60q: %+v, %v; want an error with %q", tt.name, p, err, tt.err)
			}
		case err != nil || p != (pusher{tt.job, tt.instance, tt.key}):
			t.Errorf("%q: %+v, %v; want %+v", tt.name, p, err, pusher{tt.job, tt.instance, tt.key})
		}
	}
}

// numbered are so many labels.
func numbered(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = "l" + strings.Repeat("x", i) + "=1"
	}
	return out
}

func TestFolder(t *testing.T) {
	t.Parallel()
	for p, want := range map[pusher]string{
		{job: "gateway", instance: "10.0.0.1:80", key: "a"}:              "gateway-10.0.0.1_80-ca978112ca1b",
		{job: "gateway", key: "b"}:                                       "gateway-3e23e8160039",
		{job: "..", instance: "../../etc/passwd", key: "c"}:              "_.-_._.._etc_passwd-2e7d2c03a950",
		{job: "a/b", instance: strings.Repeat("é", 100) + "x", key: "d"}: "a_b-" + strings.Repeat("_", 40) + "-18ac3e7343f0",
	} {
		if got := p.folder(); got != want {
			t.Errorf("%+v: folder %q, want %q", p, got, want)
		}
	}
}

func TestParseSpan(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		from, until string
		span        time.Duration
		err         string
	}{
		{from: "1796032785000000001", until: "1796032800000000001", span: 15 * time.Second}, // pyroscope-go's
		{from: "1796032785", until: "1796032800", span: 15 * time.Second},
		{from: "1796032785000", until: "1796032800000", span: 15 * time.Second},
		{from: "1796032785000000", until: "1796032800000000", span: 15 * time.Second},
		{from: "1796032785", until: "1796032785", span: 0},
		{from: "1796032785", until: "1796033099", span: 314 * time.Second}, // a clock ahead by less than 5 minutes

		{from: "", until: "1796032800", err: `expected from as Unix time, in nanoseconds or seconds, saw ""`},
		{from: "1796032785", until: "now", err: `expected until as Unix time, in nanoseconds or seconds, saw "now"`},
		{from: "-5", until: "1796032800", err: "expected from as Unix time"},
		{from: "1796032785", until: "99999999999999999999", err: "expected until as Unix time"},
		{from: "1796032800", until: "1796032785", err: "expected until after from"},
		{from: "1796032785", until: "1796033101", err: "ends in 5m1s"},
		{from: "1796031885", until: "1796031899", err: "ended 15m1s ago"},
		{from: "1795900000", until: "1796032800", err: "at most 24h0m0s"},
	} {
		from, until, err := parseSpan(url.Values{"from": {tt.from}, "until": {tt.until}}, now, 15*time.Minute)
		switch {
		case tt.err != "":
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s to %s: %v, want an error with %q", tt.from, tt.until, err, tt.err)
			}
		case err != nil || until.Sub(from) != tt.span:
			t.Errorf("%s to %s: %v, %v; want %v", tt.from, tt.until, until.Sub(from), err, tt.span)
		}
	}
}

// FuzzParseName holds every name and time that is taken to what its folder and file may be called.
func FuzzParseName(f *testing.F) {
	f.Add("name=gateway%7Binstance%3Da%2C__session_id__%3D5f%7D&from=1796032785000000001&until=1796032800000000001")
	f.Add("name=..%2F..%2Fetc&from=1796032785&until=1796032800")
	f.Add("name=a{b=c,d=}&from=-1&until=9223372036854775807")
	f.Add("name=a%00{b=%ff}&from=0&until=0")
	now := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, query string) {
		q, _ := url.ParseQuery(query)
		if from, until, err := parseSpan(q, now, time.Hour); err == nil && (until.Before(from) || until.Sub(from) > maxSpan || now.Sub(until).Abs() > time.Hour) {
			t.Errorf("%q: %v to %v", query, from, until)
		}
		p, err := parseName(q.Get("name"))
		if err != nil {
			return
		}
		folder := p.folder()
		if path.Base(folder) != folder || strings.HasPrefix(folder, ".") || strings.ContainsAny(folder, `\/:`) || len(folder) > 100 {
			t.Errorf("%q: folder %q", query, folder)
		}
		if again, err := parseName(p.job + "{" + strings.ReplaceAll(strings.TrimPrefix(strings.TrimPrefix(p.key, p.job), "\n"), "\n", ",") + "}"); err != nil || again != p {
			t.Errorf("%q: %+v, and again %+v, %v", query, p, again, err)
		}
	})
}
