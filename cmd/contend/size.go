package main

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// byteSize is a flag value: a number of bytes with an optional unit.
type byteSize int64

// sizeUnits are decimal (SI) and binary (IEC 80000-13) units, in lower case.
var sizeUnits = map[string]float64{
	"": 1, "b": 1,
	"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12,
	"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
}

// Set parses "500MB", "2GiB", "1.5 GiB" or plain bytes.
func (s *byteSize) Set(text string) error {
	end := strings.IndexFunc(text, func(c rune) bool { return c != '.' && (c < '0' || c > '9') })
	if end < 0 {
		end = len(text)
	}
	unit, known := sizeUnits[strings.ToLower(strings.TrimSpace(text[end:]))]
	n, err := strconv.ParseFloat(text[:end], 64)
	if err != nil || !known || n*unit < 1 || n*unit >= math.MaxInt64 {
		return errors.New("expected a size above 0 such as 500MB, 2GiB or 1048576")
	}
	*s = byteSize(n * unit)
	return nil
}

func (s *byteSize) String() string {
	if *s == 0 {
		return ""
	}
	return strconv.FormatInt(int64(*s), 10)
}

func (s *byteSize) Type() string { return "SIZE" }
