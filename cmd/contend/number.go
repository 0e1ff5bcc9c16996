package main

import (
	"errors"
	"strconv"
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
