package lockheadroom

import (
	"fmt"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/headroom"
)

const (
	// pileUp is how many at a lock in the latest snapshot are no accident of the moment.
	pileUp = 10
	// filled is the share of snapshots with somebody inside from which a lock may be full,
	// and some snapshots have missed who takes it next.
	filled = 0.95
	// fewReaders is the part of the writers' waits at a read-write lock that readers' may
	// be. When it is full, readers who came meanwhile have a turn between two writers: with
	// one for every tenth writer, who reads for no longer than five writers write,
	// it is full at two thirds of what the writers alone would fill, or later.
	fewReaders = 0.1
)

// crowd says how many wait where they are more than a forecast is made from: in the
// latest snapshot, or on average; "" where they are not.
func (s *site) crowd() string {
	if n := len(s.moments); n > 0 {
		if waiting, _ := s.lock.Waiting(s.moments[n-1]); waiting >= pileUp {
			return detect.Thousands(waiting)
		}
		mean := 0.0
		for _, m := range s.moments {
			waiting, _ := s.lock.Waiting(m)
			mean += waiting / float64(n)
		}
		if len(s.spells) == 0 && mean >= saturated {
			return "on average " + detect.Figure(mean)
		}
	}
	if n := len(s.spells); n > 0 {
		if waiting, _ := s.lock.Waiting(s.spells[n-1].View); waiting >= saturated {
			return "on average " + detect.Figure(waiting)
		}
	}
	return ""
}

// full says why a lock for which a crowd waits may be full; "" where today's snapshots show that it is not: it is free at times, and as
// large a crowd has gone before.
func (s *site) full(crowd string) string {
	moments := s.moments
	var today []detect.Spell
	if n := len(s.spells); n > 0 {
		today = s.spells[n-1:]
		moments = s.during(today, true)
	}
	unknown := "saturated, stuck, or asked for in bursts: " + crowd + " wait for it; 30 snapshots of that time or more tell which (contend headroom)"
	w := []headroom.Window{s.window(today, moments)}
	if s.show(w) != "" {
		return unknown
	}
	switch f := headroom.Direct(w[0]); {
	case w[0].Snapshots > 0 && w[0].Inside == w[0].Snapshots:
		return fmt.Sprintf("saturated or stuck: %s wait for it, and somebody is inside in all of %s", crowd, detect.Plural(float64(w[0].Snapshots), "snapshot"))
	case f.Refused != "" || f.Utilisation.High >= filled:
		return unknown
	case !s.goes(moments):
		return "saturated or stuck since a while: " + crowd + " wait for it, and in no snapshot before did a crowd wait for so long"
	}
	return ""
}

// goes reports whether those who wait in the last snapshots do so for no longer
// than others before them, who have gone; if they have piled up, than others who had. A
// lock that is stuck by now was free at times before that too.
func (s *site) goes(moments []*detect.View) bool {
	lasts, longest, longestPile, pile := 0, 1, 0, false
	for _, m := range moments {
		if waiting, _ := s.lock.Waiting(m); waiting > 0 {
			lasts, pile = lasts+1, pile || waiting >= pileUp
			continue
		}
		longest = max(longest, lasts)
		if pile {
			longestPile = max(longestPile, lasts)
		}
		lasts, pile = 0, false
	}
	if pile {
		longest = longestPile
	}
	return lasts <= longest
}

// readers says why a forecast of the writers' side is none of a read-write lock, ""
// where hardly anybody waits to read. What readers take from writers grows with
// the load, and neither waits nor snapshots at less of it tell how much that will be.
func (s *site) readers(f *headroom.Forecast) string {
	if !s.lock.Shared {
		return ""
	}
	if len(s.spells) > 0 && s.spells[0].Mutex {
		return "a mutex profile charges who lets go, and does not tell who waited to read from who waited to write; take a block profile"
	}
	seen, read, written := "", 0.0, 0.0
	if len(s.spells) > 0 {
		for _, sp := range s.spells {
			_, r := s.lock.Readers(sp.View)
			_, w := s.lock.Waiting(sp.View)
			read, written = read+float64(r), written+float64(w)
		}
		seen = fmt.Sprintf("%s readers waited for it beside %s writers", detect.Thousands(read), detect.Thousands(written))
	} else {
		for _, m := range s.moments {
			if r, _ := s.lock.Readers(m); r > 0 {
				read++
			}
			if s.inside(m) {
				written++
			}
		}
		seen = fmt.Sprintf("readers wait in %.0f snapshots beside %.0f with a writer", read, written)
	}
	if read <= fewReaders*written {
		return ""
	}
	held := "this is a read-write lock"
	if u := f.Utilisation; f.Refused == "" {
		held = fmt.Sprintf("writers hold this read-write lock or wait for it %.0f-%.0f %% of the time", 100*u.Low, 100*u.High)
	}
	return held + ", but " + seen + ", and what time readers take from writers grows with the load"
}
