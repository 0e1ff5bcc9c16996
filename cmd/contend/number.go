package main

import (
	"errors"
	"strconv"
	"strings"
)

// number is a flag value: a whole number from least to most.
type number struct {
	value, least, most int
	want               string // what is expected, in words
}

func (n *number) Set(text string) error {
	v, err := strconv.Atoi(text)
	if err != nil || v < n.least || v > n.most {
		return errors.New("expected " + n.want)
	}
	n.value = v
	return nil
}

func (n *number) String() string { return strconv.Itoa(n.value) }

func (n *number) Type() string { return "N" }

// multiple is a flag whose value is a number of times today's load, as 3x or 2.5.
type multiple struct{ value float64 }

func (m *multiple) Set(text string) error {
	const most = 1000 // of what no forecast reaches
	v, err := strconv.ParseFloat(strings.TrimSuffix(text, "x"), 64)
	if err != nil || !(v > 1 && v <= most) {
		return errors.New("expected a multiple of today's load above 1 such as 3x")
	}
	m.value = v
	return nil
}

func (m *multiple) String() string { return strconv.FormatFloat(m.value, 'g', -1, 64) + "x" }

func (m *multiple) Type() string { return "N" }
