// Package all is the list of every detector.
package all

import (
	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/applock"
	"github.com/contend/contend/detect/cpubound"
	"github.com/contend/contend/detect/deadlock"
	"github.com/contend/contend/detect/downstream"
	"github.com/contend/contend/detect/goroutineleak"
	"github.com/contend/contend/detect/healthcheck"
	"github.com/contend/contend/detect/herd"
	"github.com/contend/contend/detect/hungrequests"
	"github.com/contend/contend/detect/inflightcpu"
	"github.com/contend/contend/detect/lockheadroom"
	"github.com/contend/contend/detect/lockwait"
	"github.com/contend/contend/detect/memorygrowth"
	"github.com/contend/contend/detect/poolwait"
	"github.com/contend/contend/detect/replacement"
	"github.com/contend/contend/detect/telemetryblock"
)

// Detectors are all detectors, sorted by name.
func Detectors() []*detect.Detector {
	return []*detect.Detector{
		applock.Detector,
		cpubound.Detector,
		deadlock.Detector,
		downstream.Detector,
		goroutineleak.Detector,
		healthcheck.Detector,
		herd.Detector,
		hungrequests.Detector,
		inflightcpu.Detector,
		lockheadroom.Detector,
		lockwait.Detector,
		memorygrowth.Detector,
		poolwait.Detector,
		replacement.Detector,
		telemetryblock.Detector,
	}
}
