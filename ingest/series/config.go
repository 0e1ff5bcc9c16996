package series

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v2"
)

// A configuration maps a few dozen signals.
const maxConfig = 1 << 20

// Config is what contend.yaml says of a service:
//
//	selector: job="gateway"
//	health_routes: /internal/alive
//	signals:
//	  inflight: sum by (job, instance) (gateway_open_calls)
//	  cpu_limit: 2
type Config struct {
	// Selector are matchers of the service's series; "" is not given.
	Selector string
	// HealthRoutes is an anchored regular expression of routes that are health
	// checks besides the usual ones; "" is none.
	HealthRoutes string
	// Signals are PromQL, or a number, by the name of a signal.
	Signals map[string]string
}

// LoadConfig reads a contend.yaml. See ParseConfig.
func LoadConfig(path string) (Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return Config{}, fmt.Errorf("cannot open the configuration: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil {
		return Config{}, fmt.Errorf("reading %s: %w", path, err)
	}
	c, err := ParseConfig(data)
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// ParseConfig reads the text of a contend.yaml. Keys and signals that are not
// known are errors, as is PromQL that does not parse: a mistyped line would
// otherwise be a signal that is quietly read from somewhere else.
func ParseConfig(data []byte) (Config, error) {
	if len(data) > maxConfig {
		return Config{}, fmt.Errorf("expected a configuration of at most %d bytes, saw more", maxConfig)
	}
	var items yaml.MapSlice
	if err := yaml.UnmarshalStrict(data, &items); err != nil {
		return Config{}, fmt.Errorf("expected a YAML mapping with the keys %s: %w", strings.Join(configKeys, ", "), err)
	}
	var c Config
	seen := map[string]bool{}
	for _, item := range items {
		key := fmt.Sprint(item.Key)
		if seen[key] {
			return Config{}, fmt.Errorf("expected %s once, saw it again", key)
		}
		seen[key] = true
		var err error
		switch key {
		case "selector":
			if c.Selector, err = textOf(item); err == nil {
				_, _, err = parseSelector(c.Selector)
			}
		case "health_routes":
			if c.HealthRoutes, err = textOf(item); err == nil {
				_, err = regexp.Compile(c.HealthRoutes)
			}
		case "signals":
			c.Signals, err = signalsOf(item)
		default:
			return Config{}, fmt.Errorf("expected one of the keys %s, saw %q; is it %s?", strings.Join(configKeys, ", "), key, Nearest(key, configKeys)[0])
		}
		if err != nil {
			return Config{}, fmt.Errorf("%s: %w", key, err)
		}
	}
	return c, nil
}

var configKeys = []string{"selector", "health_routes", "signals"}

func textOf(item yaml.MapItem) (string, error) {
	s, ok := item.Value.(string)
	if !ok {
		return "", fmt.Errorf("expected a text, saw %v", item.Value)
	}
	return s, nil
}

func signalsOf(item yaml.MapItem) (map[string]string, error) {
	items, ok := item.Value.(yaml.MapSlice)
	if !ok {
		return nil, fmt.Errorf("expected a mapping of signals to PromQL or numbers, saw %v", item.Value)
	}
	table := Signals()
	out := map[string]string{}
	for _, item := range items {
		name := fmt.Sprint(item.Key)
		if _, again := out[name]; again {
			return nil, fmt.Errorf("expected %s once, saw it again", name)
		}
		var text string
		switch v := item.Value.(type) {
		case string, int, int64, uint64, float64:
			text = fmt.Sprint(v)
		default:
			return nil, fmt.Errorf("%s: expected PromQL or a number, saw %v", name, v)
		}
		if err := checkOverride(name, text, table); err != nil {
			return nil, err
		}
		out[name] = text
	}
	return out, nil
}

// ParseSignalFlag reads name=PromQL, or name=number, as --signal has it.
func ParseSignalFlag(arg string) (name, query string, err error) {
	name, query, ok := strings.Cut(arg, "=")
	name, query = strings.TrimSpace(name), strings.TrimSpace(query)
	if !ok || name == "" || query == "" {
		return "", "", fmt.Errorf("expected a signal and PromQL such as inflight='sum by (job, instance) (open_calls)', saw %q", arg)
	}
	return name, query, checkOverride(name, query, Signals())
}

func checkOverride(name, text string, table []Signal) error {
	if err := checkSignal(name, table); err != nil {
		return err
	}
	_, err := parseOverride(Signal{Name: name}, text, Stage{Timing: Timing{Interval: time.Minute}})
	return err
}

func checkSignal(name string, table []Signal) error {
	var names []string
	for _, s := range table {
		names = append(names, s.Name)
	}
	if slices.Contains(names, name) {
		return nil
	}
	return fmt.Errorf("expected one of the signals %s, saw %q; is it %s?", strings.Join(names, ", "), name, Nearest(name, names)[0])
}
