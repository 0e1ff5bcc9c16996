// Package pyroscope reads profiles from a Pyroscope server.
package pyroscope

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/contend/contend/ingest"
	"github.com/contend/contend/ingest/secret"
)

// Querier asks the querier API of one server
// (https://grafana.com/docs/pyroscope/latest/reference-server-api/), which
// speaks the Connect protocol (https://connectrpc.com/docs/protocol): each
// request is a POST of a message, as JSON or as protobuf. It has been the same
// since Pyroscope 1.0. Its methods may be called by several goroutines.
type Querier struct {
	base     *url.URL // with credentials: shown by name only
	name     string
	client   *http.Client
	timeout  time.Duration
	maxBytes int64
	progress func(string)
}

// Options are the choices of a Querier. The zero value is ready to use.
type Options struct {
	HTTP     *http.Client  // nil is a plain client
	Timeout  time.Duration // of one request; 0 means 30 s, which is what Grafana waits
	MaxBytes int64         // of one profile, unpacked; 0 means 256 MiB: merged, each stack is in it once
	Progress func(string)  // where set, is told what is being read now
}

// service is where the API is below a server's address.
const service = "/querier.v1.QuerierService/"

const (
	// Lists of types and labels, and one point for each upload: 24 h of 100
	// processes that upload every 15 s are 576,000 points of some 60 bytes.
	maxAnswer  = 64 << 20
	maxProfile = 256 << 20
)

const tryServer = "check the address, and see the server's log; a shorter --since or a narrower --selector asks for less"

// New makes a Querier of a server's address: http or https, with a path where
// the server is below one. A user and a password in it are sent, and shown
// nowhere. Redirects are followed on the same host only.
func New(address string, opt Options) (*Querier, error) {
	u, err := secret.ServerURL(address, "http://pyroscope:4040")
	if err != nil {
		return nil, err
	}
	u.Fragment = ""
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), ""
	q := &Querier{
		base:     u,
		name:     (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String(),
		client:   opt.HTTP,
		timeout:  opt.Timeout,
		progress: opt.Progress,
	}
	if q.client == nil {
		q.client = &http.Client{}
	}
	q.client = secret.OnSameHost(q.client)
	if q.timeout <= 0 {
		q.timeout = 30 * time.Second
	}
	q.maxBytes = cmp.Or(max(opt.MaxBytes, 0), maxProfile)
	if q.progress == nil {
		q.progress = func(string) {}
	}
	return q, nil
}

// Name is the server's URL as it may be shown: without user, password and query.
func (q *Querier) Name() string { return q.name }

// call posts a message to a method of the API and returns its answer.
func (q *Querier) call(ctx context.Context, method, kind, want string, body []byte, limit int64) ([]byte, error) {
	at := *q.base
	at.Path += service + method
	data, got, err := ingest.Get(ctx, q.client, ingest.Request{
		URL: &at, Want: want, Try: tryServer, MaxBytes: limit, Timeout: q.timeout, Body: body,
		Header: http.Header{
			"Content-Type":             {kind},
			"Connect-Protocol-Version": {"1"},
			// So that the server gives up when nobody waits any more.
			"Connect-Timeout-Ms": {strconv.FormatInt(q.timeout.Milliseconds(), 10)},
		},
	})
	switch {
	case ingest.StatusOf(err) == http.StatusNotFound:
		return nil, fmt.Errorf("%w; Pyroscope answers there since 1.0, also below a path (--server.path-prefix), which belongs to the address", err)
	case err != nil:
		return nil, err
	}
	if got, _, _ = strings.Cut(got, ";"); got != kind {
		return nil, fmt.Errorf("expected %s as %s, saw an answer of type %q; check that this is the address of a Pyroscope server, and give credentials with --http.config.file if it is a login page", want, kind, got)
	}
	return data, nil
}

const asJSON = "application/json"

// ask posts a message as JSON and reads the answer into out.
func (q *Querier) ask(ctx context.Context, method, want string, message, out any) error {
	body, err := json.Marshal(message)
	if err != nil {
		return err
	}
	data, err := q.call(ctx, method, asJSON, want, body, maxAnswer)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("expected %s as Pyroscope writes it, saw another JSON: %w; check that this is the address of a Pyroscope server", want, err)
	}
	return nil
}

// span is the window of a request, in milliseconds since 1970.
type span struct {
	Start int64 `json:"start"`
	End   int64 `json:"end"`
}

// number is an int64, which Connect's JSON writes as text, or a double.
type number float64

// UnmarshalJSON reads a number with or without quotes, NaN and Infinity too.
func (n *number) UnmarshalJSON(text []byte) error {
	f, err := strconv.ParseFloat(strings.Trim(string(text), `"`), 64)
	*n = number(f)
	return err
}

// profileType is a sort of profile that a server has. Its ID is
// NAME:SAMPLE_TYPE:SAMPLE_UNIT:PERIOD_TYPE:PERIOD_UNIT.
type profileType struct {
	ID         string `json:"ID"`
	Name       string `json:"name"`
	SampleType string `json:"sampleType"`
}

func (q *Querier) profileTypes(ctx context.Context, w span) ([]profileType, error) {
	var out struct {
		ProfileTypes []profileType `json:"profileTypes"`
	}
	err := q.ask(ctx, "ProfileTypes", "the types of its profiles", w, &out)
	return out.ProfileTypes, err
}

// labelNames are the names of labels of the profiles that match a selector.
func (q *Querier) labelNames(ctx context.Context, selector string, w span) ([]string, error) {
	var out names
	err := q.ask(ctx, "LabelNames", "names of labels", struct {
		Matchers []string `json:"matchers"`
		span
	}{[]string{selector}, w}, &out)
	return out.Names, err
}

func (q *Querier) labelValues(ctx context.Context, label string, w span) ([]string, error) {
	var out names
	err := q.ask(ctx, "LabelValues", "values of the label "+label, struct {
		Name string `json:"name"`
		span
	}{label, w}, &out)
	return out.Names, err
}

type names struct {
	Names []string `json:"names"`
}

// sums are the sums of the profiles of one set of labels, in steps.
type sums struct {
	Labels []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"labels"`
	Points []struct {
		Value     number `json:"value"`
		Timestamp number `json:"timestamp"` // milliseconds since 1970
	} `json:"points"`
}

func (s *sums) label(name string) string {
	for _, l := range s.Labels {
		if l.Name == name {
			return l.Value
		}
	}
	return ""
}

// selectSeries sums profiles by labels in steps. Steps without a profile have no point.
func (q *Querier) selectSeries(ctx context.Context, typeID, selector string, w span, by []string, step time.Duration) ([]sums, error) {
	var out struct {
		Series []sums `json:"series"`
	}
	err := q.ask(ctx, "SelectSeries", "when profiles were uploaded", struct {
		ProfileTypeID string `json:"profileTypeID"`
		LabelSelector string `json:"labelSelector"`
		span
		GroupBy []string `json:"groupBy"`
		Step    float64  `json:"step"` // seconds
	}{typeID, selector, w, by, step.Seconds()}, &out)
	return slices.DeleteFunc(out.Series, func(s sums) bool { return len(s.Points) == 0 }), err
}

// mergeProfile is the sum of all profiles of a type, in pprof's format, which is
// what the answer's protobuf message is (google.v1.Profile). It is nil where
// there was none. SelectMergeStacktraces, which the documentation puts in its
// place, has this format on recent servers only; this method stays.
func (q *Querier) mergeProfile(ctx context.Context, typeID, selector, want string, w span) ([]byte, error) {
	// The numbers are those of the message SelectMergeProfileRequest in the
	// server's api/querier/v1/querier.proto.
	var body []byte
	body = protowire.AppendTag(body, 1, protowire.BytesType)
	body = protowire.AppendString(body, typeID)
	body = protowire.AppendTag(body, 2, protowire.BytesType)
	body = protowire.AppendString(body, selector)
	body = protowire.AppendTag(body, 3, protowire.VarintType)
	body = protowire.AppendVarint(body, uint64(w.Start))
	body = protowire.AppendTag(body, 4, protowire.VarintType)
	body = protowire.AppendVarint(body, uint64(w.End))
	data, err := q.call(ctx, "SelectMergeProfile", "application/proto", want, body, q.maxBytes)
	if len(data) == 0 {
		return nil, err
	}
	return data, err
}
