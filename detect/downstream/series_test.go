package downstream_test

import (
	"testing"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/contendtest"
	"github.com/contend/contend/detect/downstream"
)

func TestStories(t *testing.T) {
	contendtest.Stories(t, []*detect.Detector{downstream.Detector}, "testdata/stories.txt")
}
