package main

import "math"

// Times are seconds since the file begins, negative before.

// curve is a quantity over time.
type curve func(t float64) float64

// procCurve is a quantity over time that may differ from process to process.
type procCurve func(t float64, p *Process) float64

func constant(x float64) curve { return func(float64) float64 { return x } }

// during is inside from one time to another and base before and after. It takes
// ramp seconds to get from one to the other.
func during(from, to, ramp, base, inside float64) curve {
	return func(t float64) float64 {
		switch {
		case t < from || t >= to+ramp:
			return base
		case t < from+ramp:
			return base + (inside-base)*(t-from)/ramp
		case t < to:
			return inside
		default:
			return inside + (base-inside)*(t-to)/ramp
		}
	}
}

// everyProc is the same for every process.
func everyProc(f curve) procCurve { return func(t float64, _ *Process) float64 { return f(t) } }

// endOfSecond is the moment whose state a scrape within that second sees.
func endOfSecond(t float64) float64 { return math.Floor(t) + 1 }
