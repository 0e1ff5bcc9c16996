package capture

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/contend/contend/ingest"
)

const (
	// A large service's metrics are some 10 MB.
	maxScrape = 64 << 20
	// Prometheus' default scrape_timeout, whatever the interval: a process in
	// trouble answers late, and how late is a series of its own.
	scrapeTimeout = 10 * time.Second
	// Plain text first: OpenMetrics has more samples (_created) and says the same.
	scrapeAccept = "text/plain;version=0.0.4,application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1"
	// How much of a parser's error is shown, which quotes the metrics.
	maxQuote = 200
)

// scraper scrapes one target, from one goroutine.
type scraper struct {
	series     *targetSeries
	url        *url.URL
	http       *http.Client
	note       func(what, reason string)
	ok, failed int
	slowest    time.Duration // of those that had an answer
}

// get is one scrape's answer.
func (s *scraper) get(ctx context.Context, within time.Duration) (body []byte, contentType string, err error) {
	return ingest.Get(ctx, s.http, ingest.Request{URL: s.url, Want: "metrics", Accept: scrapeAccept, MaxBytes: maxScrape, Timeout: within})
}

// keep takes the answer of a scrape, which began at start, into the series, or
// that it had none. The error says why it is none, or is errTooManySeries: then
// it is of no use to scrape again.
func (s *scraper) keep(start time.Time, body []byte, contentType string, err error) error {
	took := time.Since(start)
	at, seconds := start.UnixMilli(), took.Seconds()
	var left skipped
	if err == nil {
		left, err = s.addText(at, seconds, body, contentType)
	}
	switch {
	case err == nil:
		s.ok++
		s.slowest = max(s.slowest, took)
	case !errors.Is(err, errTooManySeries):
		s.failed++
		if full := s.series.fail(at, seconds); full != nil {
			err = full
		}
	}
	if err != nil {
		return err
	}
	if left.duplicate > 0 {
		s.note("series", "some are in one scrape twice; the first sample of each was kept")
	}
	if left.invalid > 0 {
		s.note("series", "some have a label twice, a control character in one, or no name; these were left out")
	}
	if left.large > 0 {
		s.note("series", fmt.Sprintf("some have more than %d KiB of text, or more than %d labels; these were left out", maxSeriesName>>10, maxLabels))
	}
	return nil
}

func (s *scraper) addText(at int64, seconds float64, body []byte, contentType string) (skipped, error) {
	if media, _, _ := mime.ParseMediaType(contentType); media == "application/vnd.google.protobuf" {
		return skipped{}, errors.New("expected metrics as text, saw protobuf, which was not asked for")
	}
	left, err := s.series.add(at, seconds, body, contentType)
	if err == nil || errors.Is(err, errTooManySeries) {
		return left, err
	}
	text := err.Error()
	return left, fmt.Errorf("expected metrics in Prometheus' text format, saw something else: %s", strings.ToValidUTF8(text[:min(len(text), maxQuote)], ""))
}

// scrapeAll scrapes at the start and at each interval, until the end, ctx is
// done, or the process turns out to have no metrics.
func (c *capture) scrapeAll(ctx context.Context) {
	more := c.scrapeOnce(ctx)
	if c.scraper.ok == 0 {
		c.foundNothing()
	}
	for more && c.wait(ctx, c.next(c.ScrapeInterval)) {
		more = c.scrapeOnce(ctx)
	}
}

// scrapeOnce reports whether it is of use to scrape again.
func (c *capture) scrapeOnce(ctx context.Context) bool {
	s := &c.scraper
	start := time.Now()
	body, contentType, err := s.get(ctx, c.timeLeft(s.slowest, scrapeTimeout))
	if ctx.Err() != nil && err != nil {
		return false
	}
	if c.scraped.IsZero() {
		if absent(err) {
			c.note("metrics", err.Error())
			return false
		}
		c.scraped = moment(start)
	}
	err = s.keep(start, body, contentType, err)
	if errors.Is(err, errTooManySeries) {
		c.note("metrics", tooManySeries(s.ok+s.failed, "a longer --scrape-interval or a shorter --for"))
		return false
	}
	if err != nil {
		c.note("metrics", err.Error())
	}
	return true
}

// tooManySeries says that there were after so many scrapes, and what to try.
func tooManySeries(scrapes int, try string) string {
	return fmt.Sprintf("no more scrapes after %d: their samples would take more than %d MiB of memory, or a file of more than %d MiB; try %s", scrapes, maxSeriesMemory>>20, maxSeriesText>>20, try)
}

// absent reports whether an answer says that asking again is of no use.
func absent(err error) bool {
	switch ingest.StatusOf(err) {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusUnauthorized, http.StatusForbidden:
		return true
	}
	return false
}
