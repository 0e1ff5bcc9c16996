package detect

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/contend/contend/detect/headroom"
)

// UsualSurge is what a lock is to survive where nobody says otherwise, in multiples
// of today's load: backlogs and retries come as about three times the usual traffic.
const UsualSurge = 3

// Headroom is how much more load a lock can take: the numbers of a forecast.
type Headroom struct {
	Utilisation Bracket  `json:"utilisation"`           // the share of time that the lock is held
	SaturatesAt Bracket  `json:"saturates_at"`          // multiples of today's load
	HoldingS    float64  `json:"holding_s,omitempty"`   // seconds that it is held for each request
	Queue       float64  `json:"queue,omitempty"`       // how many wait for it on average
	Contentions int64    `json:"contentions,omitempty"` // how often somebody did
	Reading     string   `json:"reading"`               // direct, levels, share, queue or series
	Assumes     []string `json:"assumes"`
}

// Bracket is what a value is between.
type Bracket struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// NewHeadroom has the numbers of a forecast that is not refused.
func NewHeadroom(f headroom.Forecast) *Headroom {
	return &Headroom{
		Utilisation: Bracket{f.Utilisation.Low, f.Utilisation.High},
		SaturatesAt: Bracket{f.Saturates.Low, f.Saturates.High},
		HoldingS:    f.Holding.Seconds(),
		Reading:     string(f.Reading),
		Assumes:     f.Assumes,
	}
}

// Saturates says at what load the lock falls over: "saturates at about 1.3-1.9x".
func (h *Headroom) Saturates() string {
	return fmt.Sprintf("saturates at about %s-%sx", multiple(h.SaturatesAt.Low), multiple(h.SaturatesAt.High))
}

// By says in words how it was read.
func (h *Headroom) By() string {
	switch h.Reading {
	case "direct":
		return "by how often somebody is inside"
	case "levels", "series":
		return "by how waiting grows with the load"
	case "share":
		return "by how many have to wait"
	}
	return "by how many wait on average"
}

// multiple has two digits that count.
func multiple(x float64) string {
	if x >= 10 {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'f', 1, 64)
}

// Held says how full the lock is and who waits: "in use 54-78 % of the time, …".
func (h *Headroom) Held() string {
	parts := []string{fmt.Sprintf("in use %.0f-%.0f %% of the time", 100*h.Utilisation.Low, 100*h.Utilisation.High)}
	if h.HoldingS > 0 {
		parts = append(parts, "held "+Seconds(h.HoldingS)+" a request")
	}
	if h.Queue > 0 {
		parts = append(parts, "on average "+Figure(h.Queue)+" waiting")
	}
	if h.Contentions > 0 {
		parts = append(parts, Plural(float64(h.Contentions), "contention"))
	}
	return strings.Join(parts, ", ")
}

// joinForecasts is the forecast of a lock that several instances have: of the
// first to fall over, since each takes its part of the load.
func joinForecasts(g []Finding, of int) Finding {
	f := slices.MinFunc(g, func(a, b Finding) int {
		return cmp.Compare(a.SaturatesAt.Low, b.SaturatesAt.Low)
	})
	f.Summary = fmt.Sprintf("%d of %d instances of %s; in %s %s", len(g), max(of, len(g)), f.Job, f.Process, f.Summary)
	f.Instances, f.Evidence = nil, slices.Clone(f.Evidence)
	for _, one := range g {
		f.Instances = append(f.Instances, one.Instances...)
		if one.Process != f.Process {
			f.Evidence = append(f.Evidence, Evidence{Text: one.Process + ": " + one.Headroom.Saturates()})
			f.warn(one.Warnings)
		}
	}
	slices.Sort(f.Instances)
	f.Process = ""
	return f
}
