package rules_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"

	"github.com/contend/contend/ingest/series"
	"github.com/contend/contend/rules"
	"github.com/contend/contend/rules/rulestest"
)

// BenchmarkCost measures what an evaluation of the generated group costs a real
// Prometheus server that has 1,000 instances: its seconds on the clock and of CPU, and
// the share of one instance. The server is given 70 minutes of history first,
// so that all baselines are there, and then lives on, 15 s at a time: an
// operation is one evaluation, of which a minute has four.
//
//	go test ./rules -run '^$' -bench Cost -benchtime 3x -v
func BenchmarkCost(b *testing.B) {
	f := newFleet(b)
	for _, c := range []struct {
		name  string
		group *rules.Group
		sick  bool
	}{
		{"for this server", f.group(b, f.Raw), false},
		{"for any server", f.group(b, nil), false},
		{"for this server, all sick", f.group(b, f.Raw), true},
	} {
		b.Run(c.name, func(b *testing.B) {
			if c.sick {
				f.Sick = f.Now
			} else {
				f.Sick = time.Time{}
			}
			f.load(b, c.group)
			var clock, cpu float64
			for b.Loop() {
				c1, c2 := f.evaluate(b)
				clock, cpu = clock+c1, cpu+c2
			}
			n := float64(b.N)
			b.ReportMetric(0, "ns/op") // most of it is the wait for the next evaluation
			b.ReportMetric(1e3*clock/n, "ms/evaluation")
			b.ReportMetric(1e3*cpu/n, "cpu-ms/evaluation")
			b.ReportMetric(1e6*cpu/n/rulestest.Instances, "cpu-µs/instance")
			f.logCosts(b)
		})
	}
}

// fleet is a server and what it is given.
type fleet struct {
	*rulestest.Fleet
	server, file string
}

// newFleet starts a server and fills it.
func newFleet(b *testing.B) *fleet {
	f := &fleet{Fleet: rulestest.New(time.Now().Truncate(rulestest.Interval))}
	columns, err := f.Columns(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	f.serve(b)
	const slice = 10 * time.Minute // the server takes no sample that is an hour older than its newest
	for from := f.Start; !from.After(f.Now); from = from.Add(slice) {
		var of []prompb.TimeSeries
		for _, c := range columns {
			first, _ := slices.BinarySearch(c.T, from.UnixMilli())
			end, _ := slices.BinarySearch(c.T, from.Add(slice).UnixMilli())
			one := prompb.TimeSeries{Labels: labelsOf(c.Labels)}
			for i := first; i < end && c.T[i] <= f.Now.UnixMilli(); i++ { // a stale marker may come after it
				one.Samples = append(one.Samples, prompb.Sample{Timestamp: c.T[i], Value: c.V[i]})
			}
			if len(one.Samples) > 0 {
				of = append(of, one)
			}
		}
		f.write(b, of)
	}
	return f
}

func labelsOf(l labels.Labels) (out []prompb.Label) {
	l.Range(func(l labels.Label) { out = append(out, prompb.Label{Name: l.Name, Value: l.Value}) })
	return out
}

// write sends one instance's series as those of all.
func (f *fleet) write(b *testing.B, one []prompb.TimeSeries) {
	b.Helper()
	for n := range rulestest.Instances {
		job, instance := rulestest.Name(n)
		for _, s := range one {
			for i := range s.Labels {
				switch s.Labels[i].Name {
				case model.JobLabel:
					s.Labels[i].Value = job
				case model.InstanceLabel:
					s.Labels[i].Value = instance
				}
			}
		}
		f.send(b, &prompb.WriteRequest{Timeseries: one})
	}
}

func (f *fleet) send(b *testing.B, request *prompb.WriteRequest) {
	b.Helper()
	body, err := request.Marshal()
	if err != nil {
		b.Fatal(err)
	}
	resp, err := http.Post(f.server+"/api/v1/write", "application/x-protobuf", bytes.NewReader(snappy.Encode(nil, body)))
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	if said, _ := io.ReadAll(resp.Body); resp.StatusCode/100 != 2 {
		b.Fatalf("write samples: status %s: %s", resp.Status, said)
	}
}

// push gives the server the samples of all scrapes until now.
func (f *fleet) push(b *testing.B) {
	for f.Now.Add(rulestest.Interval).Before(time.Now()) {
		f.Now = f.Now.Add(rulestest.Interval)
		var one []prompb.TimeSeries
		for _, s := range f.Samples(f.Now) {
			one = append(one, prompb.TimeSeries{Labels: labelsOf(s.Labels), Samples: []prompb.Sample{{Timestamp: f.Now.UnixMilli(), Value: s.Value}}})
		}
		f.write(b, one)
	}
}

// serve starts a Prometheus server without a target and without rules.
func (f *fleet) serve(b *testing.B) {
	binary, err := exec.LookPath("prometheus")
	if err != nil {
		if os.Getenv("CONTEND_REQUIRE") != "" {
			b.Fatalf("CONTEND_REQUIRE is set: %v", err)
		}
		b.Skipf("needs a Prometheus server, such as Debian's package: %v", err)
	}
	dir := b.TempDir()
	config, logged := filepath.Join(dir, "prometheus.yml"), filepath.Join(dir, "log")
	f.file = filepath.Join(dir, "contend.rules.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, "rule_files: [%q]\n", f.file), 0o600); err != nil {
		b.Fatal(err)
	}
	output, err := os.Create(logged)
	if err != nil {
		b.Fatal(err)
	}
	defer output.Close()
	cmd := exec.Command(binary, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address=127.0.0.1:0", "--web.enable-remote-write-receiver", "--web.enable-lifecycle")
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	listening := regexp.MustCompile(`msg="Listening on" .*address=(127\.0\.0\.1:\d+)`)
	f.until(b, "a server that listens", func() bool {
		said, err := os.ReadFile(logged)
		if err != nil {
			b.Fatal(err)
		}
		m := listening.FindSubmatch(said)
		if m == nil {
			return false
		}
		f.server = "http://" + string(m[1])
		resp, err := http.Get(f.server + "/-/ready")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// until asks each second whether something is done, for at most a minute.
func (f *fleet) until(b *testing.B, what string, done func() bool) {
	b.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(time.Second) {
		if time.Now().After(deadline) {
			b.Fatalf("expected %s within a minute", what)
		}
	}
}

// group are the rules for what src has; nil is no server in particular.
func (f *fleet) group(b *testing.B, src series.Source) *rules.Group {
	g, err := f.Group(b.Context(), src)
	if err != nil {
		b.Fatal(err)
	}
	return g
}

// load has the server evaluate a group, and waits until it did so twice: windows
// are full of samples then, of which none came while the server was filled.
func (f *fleet) load(b *testing.B, g *rules.Group) {
	b.Helper()
	if err := os.WriteFile(f.file, rules.Encode(g, rules.Prometheus, header), 0o600); err != nil {
		b.Fatal(err)
	}
	resp, err := http.Post(f.server+"/-/reload", "", nil)
	if err != nil {
		b.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		b.Fatalf("load the rules: status %s", resp.Status)
	}
	for range 2 {
		f.evaluate(b)
	}
}

// evaluate waits for the next evaluation of the group: its seconds on the clock
// and, of the whole server, which does nothing else meanwhile, of CPU.
func (f *fleet) evaluate(b *testing.B) (clock, cpu float64) {
	b.Helper()
	f.push(b)
	const lasted, done, used = "prometheus_rule_group_last_duration_seconds", "prometheus_rule_group_iterations_total", "process_cpu_seconds_total"
	const begun = "prometheus_rule_group_last_evaluation_timestamp_seconds"
	before := f.metrics(b)
	after := before
	// Asked all the while, the server would spend as much on the answers.
	if due := time.UnixMilli(int64(1e3 * before[begun])).Add(rulestest.Interval); before[done] > 0 {
		time.Sleep(time.Until(due))
	}
	f.until(b, "an evaluation", func() bool {
		after = f.metrics(b)
		return after[done] > before[done]
	})
	return after[lasted], after[used] - before[used]
}

// metrics are the server's own, those of several series added up.
func (f *fleet) metrics(b *testing.B) map[string]float64 {
	b.Helper()
	text := f.get(b, "/metrics")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		b.Fatal(err)
	}
	out := map[string]float64{}
	for name, family := range families {
		for _, m := range family.Metric {
			out[name] += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return out
}

func (f *fleet) get(b *testing.B, path string) []byte {
	b.Helper()
	resp, err := http.Get(f.server + path)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		b.Fatalf("%s: status %s, error %v", path, resp.Status, err)
	}
	return text
}

// cost is what the server says of a rule.
type cost struct {
	Name, LastError string
	Labels          map[string]string
	EvaluationTime  float64 // of the last evaluation, in seconds
}

// logCosts tells which rules cost most in the last evaluation, and fails where one could not be evaluated.
func (f *fleet) logCosts(b *testing.B) {
	var answer struct {
		Data struct{ Groups []struct{ Rules []cost } }
	}
	if err := json.Unmarshal(f.get(b, "/api/v1/rules"), &answer); err != nil || len(answer.Data.Groups) != 1 {
		b.Fatalf("rules: %d groups, error %v", len(answer.Data.Groups), err)
	}
	costs := answer.Data.Groups[0].Rules
	slices.SortFunc(costs, func(x, y cost) int { return cmp.Compare(y.EvaluationTime, x.EvaluationTime) })
	const most = 12
	for i, c := range costs {
		if c.LastError != "" {
			b.Errorf("%s: %s", c.Name, c.LastError)
		}
		if i < most {
			b.Logf("%5.1f ms  %s %s%s", 1e3*c.EvaluationTime, c.Name, c.Labels["alert"], c.Labels["like"])
		}
	}
}
