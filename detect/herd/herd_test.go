package herd_test

import (
	"testing"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/cases"
	"github.com/contend/contend/detect/herd"
)

func TestStories(t *testing.T) {
	cases.Stories(t, []*detect.Detector{herd.Detector}, "testdata/stories.txt")
}
