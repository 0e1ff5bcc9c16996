package capture

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"os"
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

// scrapes are the metrics' half of a capture; its goroutine alone uses it.
type scrapes struct {
	series     *seriesSet
	first      time.Time // zero where there was none
	ok, failed int
	slowest    time.Duration // of those that had an answer
}

// scrapeAll scrapes at the start and at each interval, until the end, ctx is
// done, or the process turns out to have no metrics.
func (c *capture) scrapeAll(ctx context.Context) {
	more := c.scrapeOnce(ctx)
	if c.scrapes.ok == 0 {
		c.foundNothing()
	}
	for more && c.wait(ctx, c.next(c.ScrapeInterval)) {
		more = c.scrapeOnce(ctx)
	}
}

// scrapeOnce reports whether it is of use to scrape again.
func (c *capture) scrapeOnce(ctx context.Context) bool {
	s := &c.scrapes
	start := c.now()
	body, contentType, err := ingest.Get(ctx, c.HTTP, ingest.Request{
		URL: c.at.metrics, Want: "metrics", Accept: scrapeAccept, MaxBytes: maxScrape, Timeout: c.timeLeft(s.slowest, scrapeTimeout),
	})
	took := time.Since(start)
	at, seconds := start.UnixMilli(), took.Seconds()
	if ctx.Err() != nil && err != nil {
		return false
	}
	if s.first.IsZero() {
		if absent(err) {
			c.note("metrics", err.Error())
			return false
		}
		s.first = start
	}
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
		c.note("metrics", err.Error())
		err = s.series.fail(at, seconds)
	}
	if errors.Is(err, errTooManySeries) {
		c.note("metrics", fmt.Sprintf("no more scrapes after %d: their samples would take more than %d MiB of memory, or a file of more than %d MiB; try a longer --scrape-interval or a shorter --for", s.ok+s.failed, maxSeriesMemory>>20, maxSeriesText>>20))
		return false
	}
	if left.duplicate > 0 {
		c.note("series", "some are in one scrape twice; the first sample of each was kept")
	}
	if left.invalid > 0 {
		c.note("series", "some have a label twice, a control character in one, or no name; these were left out")
	}
	if left.large > 0 {
		c.note("series", fmt.Sprintf("some have more than %d KiB of text, or more than %d labels; these were left out", maxSeriesName>>10, maxLabels))
	}
	return true
}

func (s *scrapes) addText(at int64, seconds float64, body []byte, contentType string) (skipped, error) {
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

// absent reports whether an answer says that asking again is of no use.
func absent(err error) bool {
	switch ingest.StatusOf(err) {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusUnauthorized, http.StatusForbidden:
		return true
	}
	return false
}

// writeSeries writes what was scraped, if anything was: all of it or, where
// there is no room, nothing.
func (c *capture) writeSeries() (*Taken, error) {
	if c.scrapes.first.IsZero() {
		return nil, nil
	}
	path := c.folder.path(seriesFile)
	size, err := c.writeSeriesTo(path)
	if err != nil {
		os.Remove(path)
		return nil, fmt.Errorf("write the series: %w; they were left out", err)
	}
	c.folder.bytes += size
	return &Taken{File: seriesFile, Kind: "series", At: c.scrapes.first}, nil
}

func (c *capture) writeSeriesTo(path string) (size int64, err error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer f.Close() // closed below, but for errors
	if err := c.scrapes.series.write(f); err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), f.Close()
}
