package herd_test

import (
	"testing"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/contendtest"
	"github.com/contend/contend/detect/herd"
)

func TestStories(t *testing.T) {
	contendtest.Stories(t, []*detect.Detector{herd.Detector}, "testdata/stories.txt")
}
