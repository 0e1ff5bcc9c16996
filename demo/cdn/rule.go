package cdn

import (
	"io"
	"math"
	"net/http"
	"slices"

	"golang.org/x/time/rate"
)

const (
	RegionHeader     = "X-Region"      // of a request: where its client is, one of Regions
	StatusPageHeader = "X-Status-Page" // of an answer: "1" on the status page
)

// Regions are those that clients are in, in the order in which Restore lets them
// back.
func Regions() []string {
	return []string{
		"australia", "new-zealand", "japan", "singapore", "india",
		"europe-west", "europe-north", "brazil", "us-west", "us-east",
	}
}

// rule of the edge says who may pass. That of nil lets all pass.
type rule struct {
	regions []string
	limiter *rate.Limiter // nil: no limit
}

func (r *rule) passes(request *http.Request) bool {
	if r == nil {
		return true
	}
	return slices.Contains(r.regions, request.Header.Get(RegionHeader)) && (r.limiter == nil || r.limiter.Allow())
}

// Block answers all but /metrics with the status page, or ends the rule.
func (c *CDN) Block(blocked bool) {
	if blocked {
		c.rule.Store(&rule{})
	} else {
		c.rule.Store(nil)
	}
}

// Restore lets a share of the traffic pass, 0 to 1: the clients of so many
// regions, always the same first, and of them no more than the share of the
// configured limit. All others get the status page. 1 ends the rule.
func (c *CDN) Restore(share float64) {
	if share >= 1 {
		c.rule.Store(nil)
		return
	}
	if !(share > 0) { // NaN too
		share = 0
	}
	regions := Regions()
	r := &rule{regions: regions[:int(math.Round(share*float64(len(regions))))]}
	if c.cfg.Limit > 0 {
		limit := share * c.cfg.Limit
		// A tenth of a second's tokens let random arrivals pass and no surge.
		r.limiter = rate.NewLimiter(rate.Limit(limit), 1+int(limit/10))
	}
	c.rule.Store(r)
}

func serveStatusPage(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set(StatusPageHeader, "1")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(http.StatusServiceUnavailable)
	io.WriteString(w, "<!doctype html><title>Status</title><p>We are having trouble and will be back soon.\n")
}
