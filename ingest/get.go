package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"time"

	"github.com/google/pprof/profile"
)

// Request is one GET that Get makes.
type Request struct {
	URL      *url.URL
	Want     string        // what errors say was expected, such as "metrics"; "" is "a profile"
	Accept   string        // the header, "" for none
	MaxBytes int64         // of the answer, unpacked
	Timeout  time.Duration // for the whole answer
}

// Get reads a whole answer and its content type. An answer other than 200, one
// that is longer than MaxBytes or does not end in time is an error, which has
// no credentials in it and says what to try; StatusOf tells its status. A nil
// client is a plain one.
func Get(ctx context.Context, client *http.Client, r Request) (data []byte, contentType string, err error) {
	sent := newSecrets(r.URL)
	defer func() {
		err = sent.hideError(err)
		if err != nil && r.Want != "" {
			err = &hiddenError{strings.Replace(err.Error(), "expected a profile", "expected "+r.Want, 1), err}
		}
	}()
	start := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, r.Timeout, errTimeout)
	defer cancel()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaderField: sent.addHeader})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL.String(), nil)
	if err != nil {
		return nil, "", errors.New("expected a URL such as http://HOST:PORT, saw one that cannot be requested")
	}
	req.Header.Set("User-Agent", "contend")
	if r.Accept != "" {
		req.Header.Set("Accept", r.Accept)
	}
	if client == nil {
		client = &http.Client{}
	}
	resp, err := withoutReferer(client).Do(req)
	if err != nil {
		return nil, "", requestError(ctx, r.URL, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, "", newStatusError(resp, sent)
	}
	data, err = io.ReadAll(io.LimitReader(resp.Body, r.MaxBytes+1))
	switch {
	case int64(len(data)) > r.MaxBytes:
		return nil, "", fmt.Errorf("expected a profile of at most %s, saw more", bytesText(r.MaxBytes))
	case err == nil:
		return data, resp.Header.Get("Content-Type"), nil
	case timedOut(context.Cause(ctx)):
		return nil, "", fmt.Errorf("expected a profile, saw an answer that was still arriving: %s in %.0f s", bytesText(int64(len(data))), time.Since(start).Seconds())
	case ctx.Err() != nil:
		return nil, "", fmt.Errorf("interrupted: %w", context.Cause(ctx))
	}
	return nil, "", fmt.Errorf("expected a profile, saw an answer that was cut off after %s: %s", bytesText(int64(len(data))), scrub(err.Error()))
}

// StatusOf is the HTTP status of the answer that an error of Get is about, 0
// where there was none.
func StatusOf(err error) int { return statusOf(err) }

// ParseProfile parses a pprof protobuf, gzipped or not, within the limits of
// Load: one that would take the parser out of all proportion to its size is
// refused.
func ParseProfile(data []byte) (*profile.Profile, error) {
	in := &source{r: bytes.NewReader(data), limit: defaultMaxProfile}
	head, complete, err := in.unpack()
	if err != nil {
		return nil, err
	}
	if kind, why := sniff(head, complete); why != nil {
		return nil, why
	} else if kind != proto {
		return nil, errors.New("expected a pprof profile in protobuf, saw text")
	}
	unpacked, err := in.all(defaultMaxProfile)
	if err != nil {
		return nil, err
	}
	return parseProto(unpacked)
}
