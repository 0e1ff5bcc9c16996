package main

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Sample is a value at a time in unix seconds; NaN says that the series ended.
type Sample struct{ t, v float64 }

// Series is one metric name with one set of labels.
type Series struct {
	key          string // as it is written
	name, family string
	kind         string // gauge, counter and so on
	metric       string // the same for all series of one histogram or summary
	number       int    // in the order of their first samples
	samples      []Sample
	last         float64 // time of the last sample
}

func (s *Series) new() bool { return len(s.samples) == 0 }

func (s *Series) append(t, v float64) {
	s.samples = append(s.samples, Sample{t, v})
	s.last = t
}

// Store holds what was scraped.
type Store struct {
	dump bool // written as promtool tsdb dump-openmetrics does: no TYPE, with NaN where a series ended
	slim bool // without what no signal could be read from
	all  map[string]*Series
	made int
	// A family has the type that it was first seen with. Those of the real
	// ingress-nginx are two: its connections are a gauge and a counter.
	kinds map[string]string
}

func newStore(dump, slim bool) *Store {
	return &Store{dump: dump, slim: slim, all: map[string]*Series{}, kinds: map[string]string{}}
}

// unread is whether a metric tells nothing of a service's requests, CPU,
// memory, waiting, health or life.
func unread(name string) bool {
	for _, suffix := range []string{"_bucket", "_info", "_max_fds", "_virtual_memory_bytes"} {
		if strings.HasSuffix(name, suffix) && name != "target_info" && name != "kube_pod_info" {
			return true
		}
	}
	for _, prefix := range []string{
		"go_gc_", "go_memstats_", "go_threads", "promhttp_", "scrape_samples_", "scrape_series_",
		"nodejs_heap_", "nodejs_eventloop_lag_", "jvm_gc_", "system_", "process_uptime", "container_sockets", "container_threads",
	} {
		if strings.HasPrefix(name, prefix) && name != "system_cpu_count" {
			return true
		}
	}
	return false
}

// series finds or makes a series.
func (st *Store) series(kind, family, name string, labels []label) *Series {
	key := written(name, labels)
	if s := st.all[key]; s != nil {
		return s
	}
	st.made++
	s := &Series{key: key, name: name, family: family, kind: kind, number: st.made}
	s.metric = written(family, slices.DeleteFunc(labels, func(l label) bool { return l.name == "le" }))
	st.all[key] = s
	if st.kinds[family] == "" {
		st.kinds[family] = kind
	}
	return s
}

// dropLast takes a sample back, since the scrape failed after all.
func (st *Store) dropLast(s *Series) {
	s.samples = s.samples[:len(s.samples)-1]
	if s.new() {
		delete(st.all, s.key)
		return
	}
	s.last = s.samples[len(s.samples)-1].t
}

// written is a series as OpenMetrics text has it, with names in quotes that need them.
func written(name string, labels []label) string {
	var b strings.Builder
	if q := quoted(name); q != name {
		b.WriteString("{" + q + ",")
	} else {
		b.WriteString(name + "{")
	}
	for i, l := range labels {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(quoted(l.name) + `="` + l.value + `"`)
	}
	b.WriteByte('}')
	return b.String()
}

// quoted puts a name in quotes where it has more than letters, digits and _.
func quoted(name string) string {
	plain := func(c rune) bool {
		return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
	}
	if strings.ContainsFunc(name, func(c rune) bool { return !plain(c) }) {
		return strconv.Quote(name)
	}
	return name
}

// write writes all series to a gzip file: those of a family together, and in
// it those of a metric, as OpenMetrics asks.
func (st *Store) write(path string) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	gz, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(gz)
	family := ""
	var line []byte
	for _, s := range st.sorted() {
		if !st.dump && s.family != family {
			family = s.family
			help := strings.NewReplacer("_", " ", ".", " ").Replace(family)
			fmt.Fprintf(w, "# HELP %s %s.\n# TYPE %s %s\n", quoted(family), help, quoted(family), st.kinds[family])
		}
		for _, x := range s.samples {
			if math.IsNaN(x.v) && !st.dump {
				continue // a /metrics page just stops showing it
			}
			line = append(append(line[:0], s.key...), ' ')
			line = append(appendValue(line, x.v), ' ')
			line = append(strconv.AppendFloat(line, x.t, 'f', 3, 64), '\n')
			w.Write(line) // a failure is kept for Flush
		}
	}
	w.WriteString("# EOF\n")
	return errors.Join(w.Flush(), gz.Close())
}

func (st *Store) sorted() []*Series {
	all := make([]*Series, 0, len(st.all))
	for _, s := range st.all {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *Series) int {
		if st.dump { // by name, as a database has them
			return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(a.key, b.key))
		}
		return cmp.Or(strings.Compare(a.family, b.family), strings.Compare(a.metric, b.metric), cmp.Compare(a.number, b.number))
	})
	return all
}

// appendValue writes a value to nine digits, large ones to three decimals.
func appendValue(b []byte, v float64) []byte {
	switch {
	case math.IsNaN(v):
		return append(b, "NaN"...)
	case v == math.Trunc(v) && math.Abs(v) < 1e15:
		return strconv.AppendInt(b, int64(v), 10)
	case math.Abs(v) >= 1e6:
		return strconv.AppendFloat(b, math.Round(v*1000)/1000, 'f', -1, 64)
	}
	return strconv.AppendFloat(b, v, 'g', 9, 64)
}
