// Package pyroscopetest is a stand-in for a Pyroscope server in tests. It takes
// what pyroscope-go uploads and answers the part of the querier API that package
// pyroscope asks, each as the documentation has it
// (https://grafana.com/docs/pyroscope/latest/reference-server-api/). A request
// that is not as documented is answered with 400 and why.
package pyroscopetest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/pprof/profile"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"google.golang.org/protobuf/encoding/protowire"
)

// Server is the stand-in, an http.Handler. The zero value is ready to use.
type Server struct {
	// Tenant, where set, must be every request's X-Scope-OrgID.
	Tenant string

	mu      sync.Mutex
	uploads []upload
	asked   []string
}

// upload is one profile with one type of samples.
type upload struct {
	labels  labels.Labels
	at      time.Time
	id      [5]string // its type
	profile *profile.Profile
}

// Add keeps a profile that was taken at a time: one upload for each of its types
// of samples. name is that of its types: goroutines, block or mutex.
func (s *Server) Add(name string, lset map[string]string, at time.Time, p *profile.Profile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(name, lset, at, p)
}

func (s *Server) add(name string, lset map[string]string, at time.Time, p *profile.Profile) {
	for i, t := range p.SampleType {
		one := p.Copy()
		one.SampleType = []*profile.ValueType{t}
		one.DefaultSampleType = ""
		for k, sample := range one.Sample {
			sample.Value = []int64{p.Sample[k].Value[i]}
		}
		period := cmp.Or(p.PeriodType, &profile.ValueType{Type: t.Type, Unit: t.Unit})
		s.uploads = append(s.uploads, upload{labels.FromMap(lset), at, [5]string{name, t.Type, t.Unit, period.Type, period.Unit}, one})
	}
}

// Asked are the methods of the API and uploads that were answered, in order.
func (s *Server) Asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// refusal is an error of the Connect protocol.
type refusal struct {
	status        int
	Code, Message string
}

func (r *refusal) Error() string { return r.Message }

func bad(format string, args ...any) error {
	return &refusal{http.StatusBadRequest, "invalid_argument", fmt.Sprintf(format, args...)}
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer, kind, err := s.serve(r)
	if err != nil {
		e, ok := err.(*refusal)
		if !ok {
			e = bad("%v", err).(*refusal)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(e.status)
		json.NewEncoder(w).Encode(map[string]string{"code": e.Code, "message": e.Message})
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Write(answer)
}

func (s *Server) serve(r *http.Request) (answer []byte, kind string, err error) {
	if s.Tenant != "" && r.Header.Get("X-Scope-OrgID") != s.Tenant {
		return nil, "", &refusal{http.StatusUnauthorized, "unauthenticated", "no org id"}
	}
	if r.Method != http.MethodPost {
		return nil, "", &refusal{http.StatusMethodNotAllowed, "unimplemented", "expected POST, saw " + r.Method}
	}
	if r.URL.Path == "/ingest" {
		s.asked = append(s.asked, "ingest")
		return nil, "text/plain", s.ingest(r)
	}
	method, ok := strings.CutPrefix(r.URL.Path, "/querier.v1.QuerierService/")
	if !ok || r.URL.RawQuery != "" {
		return nil, "", &refusal{http.StatusNotFound, "unimplemented", "no such path"}
	}
	s.asked = append(s.asked, method)
	if v := r.Header.Get("Connect-Protocol-Version"); v != "1" {
		return nil, "", bad("expected Connect-Protocol-Version 1, saw %q", v)
	}
	if ms, err := strconv.Atoi(r.Header.Get("Connect-Timeout-Ms")); err != nil || ms <= 0 {
		return nil, "", bad("expected Connect-Timeout-Ms as a number, saw %q", r.Header.Get("Connect-Timeout-Ms"))
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, "", err
	}
	kind = r.Header.Get("Content-Type")
	switch {
	case method == "SelectMergeProfile" && kind == "application/proto":
		answer, err = s.mergeProfile(body)
		return answer, kind, err
	case kind != "application/json":
		return nil, "", &refusal{http.StatusUnsupportedMediaType, "unknown", "unsupported content type " + kind}
	}
	var out any
	switch method {
	case "ProfileTypes":
		out, err = s.profileTypes(body)
	case "LabelNames":
		out, err = s.labelNames(body)
	case "LabelValues":
		out, err = s.labelValues(body)
	case "SelectSeries":
		out, err = s.selectSeries(body)
	default:
		return nil, "", &refusal{http.StatusNotFound, "unimplemented", method + " is not implemented"}
	}
	if err != nil {
		return nil, "", err
	}
	answer, err = json.Marshal(out)
	return answer, kind, err
}

// window is a time as every message has it.
type window struct{ Start, End int64 }

func decode(body []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// matching are the uploads of a type ("" is all) that match a selector.
func (s *Server) matching(typeID, selector string, w window) ([]upload, error) {
	if w.Start <= 0 || w.End <= w.Start {
		return nil, bad("expected start and end in milliseconds, saw %d and %d", w.Start, w.End)
	}
	if typeID != "" && strings.Count(typeID, ":") != 4 {
		return nil, bad("profile-type selection must be of the form <name>:<type>:<unit>:<period_type>:<period_unit>, saw %q", typeID)
	}
	var matchers []*labels.Matcher
	if selector != "{}" {
		var err error
		if matchers, err = parser.NewParser(parser.Options{}).ParseMetricSelector(selector); err != nil {
			return nil, bad("%v", err)
		}
	}
	var out []upload
	for _, u := range s.uploads {
		ms := u.at.UnixMilli()
		if ms < w.Start || ms > w.End || typeID != "" && strings.Join(u.id[:], ":") != typeID {
			continue
		}
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(u.labels.Get(m.Name)) }) {
			out = append(out, u)
		}
	}
	return out, nil
}

func (s *Server) profileTypes(body []byte) (any, error) {
	var w window
	if err := decode(body, &w); err != nil {
		return nil, err
	}
	all, err := s.matching("", "{}", w)
	if err != nil {
		return nil, err
	}
	ids := map[[5]string]bool{}
	for _, u := range all {
		ids[u.id] = true
	}
	types := []map[string]string{}
	for _, id := range slices.SortedFunc(maps.Keys(ids), func(a, b [5]string) int { return slices.Compare(a[:], b[:]) }) {
		types = append(types, map[string]string{
			"ID": strings.Join(id[:], ":"), "name": id[0], "sampleType": id[1], "sampleUnit": id[2], "periodType": id[3], "periodUnit": id[4],
		})
	}
	return map[string]any{"profileTypes": types}, nil
}

func (s *Server) labelNames(body []byte) (any, error) {
	var m struct {
		Matchers []string
		window
	}
	if err := decode(body, &m); err != nil {
		return nil, err
	}
	if len(m.Matchers) != 1 {
		return nil, bad("expected one selector, saw %q", m.Matchers)
	}
	all, err := s.matching("", m.Matchers[0], m.window)
	names := map[string]bool{}
	for _, u := range all {
		u.labels.Range(func(l labels.Label) { names[l.Name] = true })
	}
	return map[string]any{"names": slices.Sorted(maps.Keys(names))}, err
}

func (s *Server) labelValues(body []byte) (any, error) {
	var m struct {
		Name string
		window
	}
	if err := decode(body, &m); err != nil {
		return nil, err
	}
	all, err := s.matching("", "{}", m.window)
	values := map[string]bool{}
	for _, u := range all {
		values[u.labels.Get(m.Name)] = true
	}
	delete(values, "")
	return map[string]any{"names": slices.Sorted(maps.Keys(values))}, err
}

// selectSeries sums as the server does: a point has the uploads up to its time.
func (s *Server) selectSeries(body []byte) (any, error) {
	var m struct {
		ProfileTypeID, LabelSelector string
		GroupBy                      []string
		Step                         float64
		window
	}
	if err := decode(body, &m); err != nil {
		return nil, err
	}
	step := int64(m.Step * 1000)
	if step <= 0 {
		return nil, bad("step must be non-zero")
	}
	all, err := s.matching(m.ProfileTypeID, m.LabelSelector, m.window)
	if err != nil {
		return nil, err
	}
	sums := map[string]map[int64]float64{}
	sets := map[string]labels.Labels{}
	for _, u := range all {
		set := u.labels.MatchLabels(true, m.GroupBy...)
		key := set.String()
		sets[key] = set
		if sums[key] == nil {
			sums[key] = map[int64]float64{}
		}
		at := m.Start + (u.at.UnixMilli()-m.Start+step-1)/step*step
		for _, sample := range u.profile.Sample {
			sums[key][at] += float64(sample.Value[0])
		}
	}
	series := []any{}
	for _, key := range slices.Sorted(maps.Keys(sums)) {
		pairs, points := []any{}, []any{}
		sets[key].Range(func(l labels.Label) { pairs = append(pairs, map[string]string{"name": l.Name, "value": l.Value}) })
		for _, at := range slices.Sorted(maps.Keys(sums[key])) {
			// Connect writes an int64 as text, and leaves out what is zero.
			point := map[string]any{"timestamp": strconv.FormatInt(at, 10)}
			if v := sums[key][at]; v != 0 {
				point["value"] = v
			}
			points = append(points, point)
		}
		series = append(series, map[string]any{"labels": pairs, "points": points})
	}
	return map[string]any{"series": series}, nil
}

// mergeProfile reads a SelectMergeProfileRequest and writes a google.v1.Profile.
func (s *Server) mergeProfile(body []byte) ([]byte, error) {
	var text [3]string
	var w window
	for len(body) > 0 {
		number, kind, n := protowire.ConsumeTag(body)
		if n < 0 {
			return nil, bad("expected a message in protobuf, saw %q", body)
		}
		body = body[n:]
		switch {
		case (number == 1 || number == 2) && kind == protowire.BytesType:
			text[number], n = protowire.ConsumeString(body)
		case (number == 3 || number == 4) && kind == protowire.VarintType:
			var v uint64
			v, n = protowire.ConsumeVarint(body)
			if number == 3 {
				w.Start = int64(v)
			} else {
				w.End = int64(v)
			}
		default:
			return nil, bad("expected the fields of SelectMergeProfileRequest, saw %d", number)
		}
		if n < 0 {
			return nil, bad("expected a whole message, saw it cut off")
		}
		body = body[n:]
	}
	all, err := s.matching(text[1], text[2], w)
	if err != nil || len(all) == 0 {
		return nil, err // an empty message
	}
	var profiles []*profile.Profile
	for _, u := range all {
		profiles = append(profiles, u.profile)
	}
	m, err := profile.Merge(profiles)
	if err != nil {
		return nil, err
	}
	m.TimeNanos = w.End * int64(time.Millisecond)
	m.DurationNanos = (w.End - w.Start) * int64(time.Millisecond)
	var out bytes.Buffer
	err = m.WriteUncompressed(&out)
	return out.Bytes(), err
}

// ingest keeps what pyroscope-go sends: a form with a profile and, in a second
// part, what its types of samples are called.
func (s *Server) ingest(r *http.Request) error {
	name := r.URL.Query().Get("name")
	from, err := strconv.ParseInt(r.URL.Query().Get("from"), 10, 64)
	if err != nil {
		return bad("expected from in nanoseconds, saw %q", r.URL.Query().Get("from"))
	}
	part := func(name string) ([]byte, error) {
		f, _, err := r.FormFile(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return io.ReadAll(f)
	}
	config, err := part("sample_type_config")
	if err != nil {
		return err
	}
	data, err := part("profile")
	if err != nil {
		return err
	}
	p, err := profile.ParseData(data)
	if err != nil || len(p.Sample) == 0 {
		return err // of a process in which nothing waited
	}
	kind := "goroutines"
	for _, k := range []string{"block", "mutex"} {
		if bytes.Contains(config, []byte(`"`+k+`_`)) {
			kind = k
		}
	}
	lset := map[string]string{}
	service, rest, _ := strings.Cut(name, "{")
	lset["service_name"] = service
	for pair := range strings.SplitSeq(strings.TrimSuffix(rest, "}"), ",") {
		if k, v, ok := strings.Cut(pair, "="); ok && !strings.HasPrefix(k, "__") {
			lset[k] = v
		}
	}
	s.add(kind, lset, time.Unix(0, from), p)
	return nil
}
