package ingest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"time"

	"github.com/google/pprof/profile"

	"github.com/contend/contend/ingest/secret"
)

// Request is one request that Get makes.
type Request struct {
	URL      *url.URL
	Want     string        // what errors say was expected: "metrics", "a block profile"
	Try      string        // what they say to try where the server cannot; "" for what helps with a process's own handlers
	Accept   string        // the header, "" for none
	MaxBytes int64         // of the answer, unpacked
	Timeout  time.Duration // for the whole answer
	Body     []byte        // what is sent as a POST; nil for a GET
	Header   http.Header   // more fields, such as the body's Content-Type
}

// Get reads a whole answer and its content type. An answer other than 200, one
// that is longer than MaxBytes or does not end in time is an error, which has
// no credentials in it and says what to try; StatusOf tells its status. A nil
// client is a plain one.
func Get(ctx context.Context, client *http.Client, r Request) (data []byte, contentType string, err error) {
	sent := &secret.Sent{}
	sent.AddURL(r.URL)
	defer func() { err = hideError(sent, err) }()
	start := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, r.Timeout, errTimeout)
	defer cancel()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaderField: sent.AddHeader})
	method := http.MethodGet
	if r.Body != nil {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, r.URL.String(), bytes.NewReader(r.Body))
	if err != nil {
		return nil, "", errors.New("expected a URL such as http://HOST:PORT, saw one that cannot be requested")
	}
	maps.Copy(req.Header, r.Header)
	req.Header.Set("User-Agent", "contend")
	if r.Accept != "" {
		req.Header.Set("Accept", r.Accept)
	}
	if client == nil {
		client = &http.Client{}
	}
	resp, err := secret.WithoutReferer(client).Do(req)
	if err != nil {
		return nil, "", requestError(ctx, r.URL, r.Want, r.Try, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, "", newStatusError(resp, r.URL, r.Want, r.Try, sent)
	}
	data, err = io.ReadAll(io.LimitReader(resp.Body, r.MaxBytes+1))
	switch {
	case int64(len(data)) > r.MaxBytes:
		return nil, "", fmt.Errorf("expected %s of at most %s, saw more", r.Want, bytesText(r.MaxBytes))
	case err == nil:
		return data, resp.Header.Get("Content-Type"), nil
	case timedOut(context.Cause(ctx)):
		return nil, "", fmt.Errorf("expected %s, saw an answer that was still arriving: %s in %.0f s", r.Want, bytesText(int64(len(data))), time.Since(start).Seconds())
	case ctx.Err() != nil:
		return nil, "", fmt.Errorf("interrupted: %w", context.Cause(ctx))
	}
	return nil, "", fmt.Errorf("expected %s, saw an answer that was cut off after %s: %s", r.Want, bytesText(int64(len(data))), secret.Scrub(err.Error()))
}

// StatusOf is the HTTP status of the answer that an error of Get is about, 0
// where there was none.
func StatusOf(err error) int { return statusOf(err) }

// ParseProfile parses a pprof protobuf, gzipped or not, within the limits of
// Load: one that would take the parser out of all proportion to its size is
// refused. want and try are what errors say, as in Request.
func ParseProfile(data []byte, want, try string) (*profile.Profile, error) {
	in := &source{r: bytes.NewReader(data), limit: defaultMaxProfile}
	if kind, saw, err := in.describe(); err != nil {
		return nil, err
	} else if kind != proto {
		return nil, otherAnswer(want, saw, try)
	}
	unpacked, err := in.all(defaultMaxProfile)
	if errors.Is(in.err, errTooLarge) {
		return nil, fmt.Errorf("expected %s of at most %s unpacked, saw more", want, bytesText(in.limit))
	}
	if err != nil {
		return nil, err
	}
	return parseProto(unpacked)
}

// CheckDump says what an answer is where it is no text dump of goroutines.
func CheckDump(data []byte) error {
	if bytes.HasPrefix(data, []byte("goroutine ")) {
		return nil
	}
	in := &source{r: bytes.NewReader(data), limit: defaultMaxProfile}
	_, saw, err := in.describe()
	if err != nil {
		return err
	}
	return otherAnswer("a goroutine dump", saw, "")
}

// describe is what an input holds, also in words.
func (s *source) describe() (kind content, saw string, err error) {
	head, complete, err := s.unpack()
	if deep, ok := errors.AsType[*notProfile](err); ok {
		return other, deep.saw, nil
	} else if err != nil {
		return other, "", err
	}
	kind, why := sniff(head, complete)
	switch {
	case why != nil:
		return kind, why.saw, nil
	case kind == proto:
		return kind, "a profile in protobuf", nil
	case kind == contention:
		return kind, "a block or mutex profile as text", nil
	case kind == dump:
		return kind, "text with goroutines", nil
	case kind == samples:
		return kind, "Prometheus series", nil
	}
	return kind, "other text", nil
}

func otherAnswer(want, saw, try string) error {
	return fmt.Errorf("expected %s, saw %s; %s", want, saw, cmp.Or(try, "check that net/http/pprof answers at that address, and give credentials with --http.config.file if it asks for them"))
}
