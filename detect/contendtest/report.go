package contendtest

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// String is what was seen, with the lock of the largest utilisation.
func (r Result) String() string {
	if len(r.Locks) == 0 {
		return "nobody waited for a lock\n\t" + r.throughput()
	}
	return "the lock with the largest utilisation has " + r.describe(&r.Locks[0])
}

// describe is "UTILISATION at so much load: the lock in FUNCTION ...", on several lines.
func (r *Result) describe(l *Lock) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s at %s calls/s", number(l.Utilisation), number(r.Rate))
	if r.Rate == float64(r.Parallelism)*r.Alone {
		fmt.Fprintf(&b, ", which %d callers would make if none waited", r.Parallelism)
	}
	fmt.Fprintf(&b, ": the lock in %s, of %s", l.Function, l.owner())
	if l.ReadWrite {
		b.WriteString("\n\ta read-write lock: this is its writers' side, readers do not exclude each other")
	}
	fmt.Fprintf(&b, "\n\theld for %v of a call of %v, it saturates at %s calls/s of one process", round(l.Holding), round(time.Duration(float64(time.Second)/r.Alone)), number(l.Saturates))
	fmt.Fprintf(&b, "\n\t%.1f of %d callers waited for it, %s times", l.Waiting, r.Parallelism, number(float64(l.Contentions)))
	if len(l.Callers) > 0 {
		const nearest = 3 // a line of a terminal or two; the rest is in Lock.Callers
		fmt.Fprintf(&b, ", called from %s", strings.Join(l.Callers[:min(nearest, len(l.Callers))], ", from "))
	}
	b.WriteString("\n\t" + r.throughput())
	return b.String()
}

// owner is whose code it is.
func (l *Lock) owner() string {
	switch {
	case l.Standard:
		return "the standard library"
	case l.Library != "":
		return l.Library
	}
	return "package " + l.Package
}

func (r *Result) throughput() string {
	return fmt.Sprintf("%s calls/s by one caller, %s by %d: %s times", number(r.Alone), number(r.Together), r.Parallelism, number(r.Scaling))
}

// number is v to two digits, "1,200".
func number(v float64) string {
	if v < 10 {
		return fmt.Sprintf("%.2g", v)
	}
	unit := math.Pow(10, math.Floor(math.Log10(v))-1)
	digits := fmt.Sprintf("%.0f", math.Round(v/unit)*unit)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// round is d to two digits.
func round(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 100 {
		unit *= 10
	}
	return d.Round(unit)
}
