package telemetry

import (
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// countingRegistry is the real registry, with its Register calls counted.
type countingRegistry struct {
	*prometheus.Registry
	calls, already int
}

func (r *countingRegistry) Register(c prometheus.Collector) error {
	err := r.Registry.Register(c)
	r.calls++
	if errors.As(err, new(prometheus.AlreadyRegisteredError)) {
		r.already++
	}
	return err
}

func TestRecordRegisters(t *testing.T) {
	const filters, records = 5, 3
	for _, test := range []struct {
		name           string
		faulty         bool
		calls, already int
	}{
		{"fixed", false, 2 * filters, 0},
		{"faulty", true, 2 * filters * (1 + records), 2 * filters * records},
	} {
		t.Run(test.name, func(t *testing.T) {
			registry := &countingRegistry{Registry: prometheus.NewRegistry()}
			m, err := New(registry, filters, test.faulty)
			if err != nil {
				t.Fatal(err)
			}
			for range records {
				m.Record("api", "GET", 200, 20*time.Millisecond)
			}
			if registry.calls != test.calls || registry.already != test.already {
				t.Errorf("Register was called %d times, %d of them for a known collector; want %d and %d",
					registry.calls, registry.already, test.calls, test.already)
			}
			checkValues(t, registry, filters, records)
		})
	}
}

// checkValues expects that every filter's metrics hold all records: what the
// faulty mode records must not go into collectors that nobody scrapes.
func checkValues(t *testing.T, gatherer prometheus.Gatherer, filters, records int) {
	t.Helper()
	families, err := gatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if len(families) != 2*filters {
		t.Fatalf("saw %d metric families, want %d", len(families), 2*filters)
	}
	for _, family := range families {
		metric := family.GetMetric()[0]
		seen := metric.GetCounter().GetValue()
		if h := metric.GetHistogram(); h != nil {
			seen = float64(h.GetSampleCount())
		}
		if seen != float64(records) {
			t.Errorf("%s counts %v requests, want %d", family.GetName(), seen, records)
		}
	}
}

func TestNewRefusesConflict(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "gateway_filter_000_seconds", Help: "Something else."}))
	if _, err := New(registry, 1, false); err == nil {
		t.Error("no error for a registry that has another metric of the same name")
	}
}
