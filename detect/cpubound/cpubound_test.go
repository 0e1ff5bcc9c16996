package cpubound_test

import (
	"testing"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/cases"
	"github.com/contend/contend/detect/cpubound"
)

func TestCPUBound(t *testing.T) {
	cases.Run(t, []*detect.Detector{cpubound.Detector}, []cases.Case{
		{
			Name: "requests queue for a CPU",
			Dump: `
				2 running: golang.org/x/crypto/blowfish.encryptBlock < main.login < HANDLER
				58 runnable: golang.org/x/crypto/blowfish.encryptBlock < main.login < HANDLER`,
			Verdict: "cpubound",
			Want:    []cases.Want{{Detector: "cpubound", Function: "golang.org/x/crypto/blowfish.encryptBlock", Blocked: 60, Confidence: detect.Medium}},
		},
		{
			Name: "stacks that could not be printed: no function to name",
			Dump: `
				8 running: runtime.main`,
			Verdict: "cpubound",
			Want:    []cases.Want{{Detector: "cpubound", Blocked: 8}},
		},
		{
			Name: "near-miss: most wait for an answer",
			Dump: `
				10 runnable: main.parse < HANDLER
				50 select: net/http.(*persistConn).roundTrip < main.call < HANDLER`,
		},
		{
			Name: "near-miss: a convoy hands its lock over, runnable",
			Dump: `
				40 runnable: sync.runtime_Semrelease < internal/sync.(*Mutex).unlockSlow < sync.(*Mutex).Unlock < main.(*cache).get.func1 < main.(*cache).get < HANDLER
				20 sync.Mutex.Lock: LOCK(0xc000100008) < sync.(*Mutex).Lock < main.(*cache).get(0xc000100000) < HANDLER`,
		},
		{
			Name: "near-miss: one spins in an idle process",
			Dump: `
				1 running: main.spin
				20 select: main.worker | main.main`,
		},
	})
}
