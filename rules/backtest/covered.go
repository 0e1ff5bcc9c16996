package backtest

import (
	"maps"
	"slices"
	"time"

	"github.com/contend/contend/detect"
)

// covered moves the start of the window to where the data begins: a time for which
// nothing is known is not one in which nothing fired. It returns where that is.
func (p *replay) covered() (time.Time, error) {
	start, end := p.opt.Start, p.opt.End
	begins, slack, err := p.begins()
	if err != nil || begins.Sub(start) <= max(slack, p.lookback) { // no more than a lost scrape or a pause
		return time.Time{}, err
	}
	p.opt.Start = begins
	said := ""
	if p.src.server {
		said = " (a server keeps 15 days unless --storage.tsdb.retention.time says more)"
	}
	p.note("the data begins at %s: of %s that were asked for, %s are replayed%s", clock(begins), span(end.Sub(start)), span(end.Sub(begins)), said)
	return begins, nil
}

// begins is when there is data first in the window, and how much earlier that may
// be in truth; the window's start where nothing of what is looked for is there.
func (p *replay) begins() (begins time.Time, slack time.Duration, err error) {
	if p.src.first != nil {
		if first, ok := p.src.first(); ok {
			return first, 0, nil
		}
		return p.opt.Start, 0, nil
	}
	counts, n := "count(up)", 1 // what was scraped at all: an error's counter may begin with the first error
	for _, text := range slices.Sorted(maps.Keys(p.matched)) {
		const enough = 5 // some services are younger than others
		if p.matched[text] && n < enough {
			n++
			counts += " or on () count(" + text + ")"
		}
	}
	begins = p.opt.End
	// Each look is at the step before which the one before it found no data.
	for from := p.opt.Start; ; from = begins.Add(-slack) {
		slack = max(begins.Sub(from)/glances, p.fine).Truncate(time.Millisecond)
		m, err := p.src.Range(p.ctx, counts, from, begins, slack)
		if err != nil {
			return begins, 0, err
		}
		at := detect.StepsOf(m)
		if len(at) == 0 {
			return p.opt.Start, 0, nil // none of the rules has anything to read, which is said of each
		}
		begins = time.UnixMilli(at[0]).UTC()
		if slack == p.fine || !begins.After(from) {
			return begins, 2 * slack, nil
		}
	}
}
