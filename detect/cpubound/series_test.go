package cpubound_test

import (
	"testing"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/contendtest"
	"github.com/contend/contend/detect/cpubound"
)

func TestStories(t *testing.T) {
	contendtest.Stories(t, []*detect.Detector{cpubound.Detector}, "testdata/stories.txt")
}
