package detect

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Limit is a number in an alert's condition that users may want otherwise,
// written {{name=value}} in Signal.Expr.
type Limit struct {
	Name  string
	Value float64
}

var limit = regexp.MustCompile(`\{\{([a-z_]+)=([0-9.]+)\}\}`)

// Limits are those of s, in the order in which Expr has them first.
func (s *Signal) Limits() []Limit {
	var out []Limit
	for _, m := range limit.FindAllStringSubmatch(s.Expr, -1) {
		value, err := strconv.ParseFloat(m[2], 64)
		if err == nil && !slices.ContainsFunc(out, func(l Limit) bool { return l.Name == m[1] }) {
			out = append(out, Limit{m[1], value})
		}
	}
	return out
}

// WithLimit is s with another number for one of its Limits, wherever Expr has it.
func (s Signal) WithLimit(name string, value float64) Signal {
	number := strconv.FormatFloat(value, 'f', -1, 64)
	s.Expr = limit.ReplaceAllStringFunc(s.Expr, func(text string) string {
		if strings.HasPrefix(text, "{{"+name+"=") {
			return "{{" + name + "=" + number + "}}"
		}
		return text
	})
	return s
}

// validateLimits says where a limit has two values, of which a user could set but one.
func (s *Signal) validateLimits() error {
	for _, m := range limit.FindAllStringSubmatch(s.Expr, -1) {
		for _, l := range s.Limits() {
			if value, err := strconv.ParseFloat(m[2], 64); l.Name == m[1] && (err != nil || value != l.Value) {
				return fmt.Errorf("expected one value of %s, saw %v and %s", l.Name, l.Value, m[2])
			}
		}
	}
	return nil
}
