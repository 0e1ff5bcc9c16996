package series

import (
	"slices"
	"strings"
	"testing"
)

// TestExplainExporters: what exporters say of pods comes to nothing for
// different reasons, and the one that holds is said.
func TestExplainExporters(t *testing.T) {
	t.Parallel()
	const labelled = `
up{job="app",instance="1",namespace="prod",pod="app-1"} 1x20
http_requests_in_flight{job="app",instance="1"} 1x20
`
	const want = "want\nup{} 1\n"
	const limit = `kube_pod_container_resource_limits{namespace="prod",pod="app-1",container="app",resource="cpu"} 2x20` + "\n"
	const cpu = `container_cpu_usage_seconds_total{namespace="prod",pod="app-1",container="app"} `
	for _, test := range []struct {
		name, story, signal, missing string
	}{
		{"no pod label", strings.ReplaceAll(labelled, ",pod=", ",node=") + limit, "cpu_limit", noTargets},
		{"no up", `http_requests_in_flight{job="app",instance="1"} 1x20` + "\n" + limit, "cpu_limit", "kube_pod_container_resource_limits is not read: " + noTargets},
		{"all there", labelled + limit, "cpu_limit", ""},
		{"no such resource", labelled + limit, "memory_limit", `no series kube_pod_container_resource_limits{resource="memory"}`},
		{"another pod's", strings.ReplaceAll(labelled, "app-1", "app-2") + limit, "cpu_limit", `no series kube_pod_container_resource_limits{resource="cpu"} is of a pod of the service`},
		{"one sample", labelled + cpu + "_x17 5\n", "cpu", `one sample of container_cpu_usage_seconds_total{container!="",container!="POD"}, and a rate needs two`},
		{"slower than other exporters", labelled + `container_cpu_cfs_periods_total{namespace="prod",pod="app-1",container="app"} 0+150x20` + "\n" + cpu + "0 _x19 600\n", "cpu",
			`one sample of container_cpu_usage_seconds_total{container!="",container!="POD"} in 1m0s: scraped each 5m0s`},
		{"two samples", labelled + cpu + "_x17 5 20\n", "cpu", ""},
		{"a container without", labelled + limit + cpu + "0+15x20\n" + strings.ReplaceAll(cpu, `"app"}`, `"proxy"}`) + "0+15x20\n", "cpu_limit",
			"not every container of the service's pods has a limit in kube_pod_container_resource_limits"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := parseStory(t, test.story+want)
			c, err := Collect(t.Context(), s.store, CollectOptions{Selector: `job="app"`, Start: epoch, End: s.end})
			if err != nil {
				t.Fatal(err)
			}
			m := match(t, c, test.signal)
			if !strings.Contains(m.Missing, test.missing) || (test.missing == "") != (m.Missing == "") || strings.Contains(m.Missing, noTargets) != strings.Contains(test.missing, noTargets) {
				t.Errorf("missing %q, want %q", m.Missing, test.missing)
			}
		})
	}
}

// TestMatchedExporters: targets and lists of containers are not named as what a
// limit was read from.
func TestMatchedExporters(t *testing.T) {
	t.Parallel()
	for _, selector := range []string{"", `job="app"`} {
		s := parseStory(t, `
up{job="app",instance="1",namespace="prod",pod="app-1"} 1x20
container_cpu_usage_seconds_total{namespace="prod",pod="app-1",container="app"} 0+15x20
kube_pod_container_resource_limits{namespace="prod",pod="app-1",container="app",resource="cpu"} 2x20
want
up{} 1
`)
		c, err := Collect(t.Context(), s.store, CollectOptions{Selector: selector, Start: epoch, End: s.end})
		if err != nil {
			t.Fatal(err)
		}
		if m := match(t, c, "cpu_limit"); !strings.HasPrefix(m.Matched, "kube-state-metrics: kube_pod_container_resource_limits") || slices.Contains(m.Metrics, "up") || m.Instances != 1 {
			t.Errorf("got %+v", m)
		}
	}
}
