package scenarios

import (
	"context"

	"github.com/contend/contend/demo/gateway"
	"github.com/contend/contend/demo/load"
	"github.com/contend/contend/demo/play"
)

// silent are those in which nothing is wrong, however much it looks so.
func silent() []play.Scenario {
	const length = 25 * second
	healthy := ordinary("healthy", "none", length)

	// Two thirds of its one CPU, and no queue.
	busy := ordinary("busy", "none: high traffic that takes two thirds of the CPU", length)
	busy.Fleet.Tasks, busy.Fleet.Threads = 1, 1
	busy.Gateway.Faults.CPU = 2 * ms
	busy.Load = load.Constant(300, length)

	growth := ordinary("growth", "none: traffic doubles slowly", length)
	growth.Load = []load.Phase{{For: 8 * second, From: 300, To: 300}, {For: length - 8*second, From: 300, To: 600}}

	drop := ordinary("drop", "none: traffic falls to a fifth and comes back", length)
	drop.Load = []load.Phase{{For: warm - 3*second, From: peak, To: peak}, {For: 4 * second, From: peak / 5, To: peak / 5}, {For: 6 * second, From: peak, To: peak}}

	rolling := ordinary("rollingdeploy", "none: every task is replaced, one after the other", length)
	rolling.Fleet.Ready = rolling.Fleet.Health
	rolling.Fleet.Ready.Path = "/readyz"
	rolling.Steps = append(rolling.Steps, play.Step{At: warm - 2*second, Phase: "a deploy replaces task after task", Do: func(ctx context.Context, s *play.Stage) error {
		return s.Fleet.Roll(2 * second)
	}})

	// A scrape that is not answered within its interval is lost.
	gaps := ordinary("scrapegaps", "none: scrapes of two tasks are lost for seconds", length)
	lose := func(wait bool) func(context.Context, *play.Stage) error {
		return func(_ context.Context, s *play.Stage) error {
			f := gateway.Faults{}
			if wait {
				f.ScrapeTime = 600 * ms
			}
			for _, task := range []string{"gateway-1", "gateway-3"} {
				if err := s.Fleet.SetFaults(task, f); err != nil {
					return err
				}
			}
			return nil
		}
	}
	gaps.Steps = append(gaps.Steps,
		play.Step{At: 8 * second, Phase: "scrapes are lost", Do: lose(true)},
		play.Step{At: 9500 * ms, Phase: "scrapes are back", Do: lose(false)},
		play.Step{At: warm, Phase: "scrapes are lost", Do: lose(true)},
		play.Step{At: warm + 3*second, Phase: "scrapes are back", Do: lose(false)})

	// Streams are in flight for as long as their clients like.
	streams := ordinary("streams", "none: hundreds of clients keep streams open", length)
	streams.Gateway.Streams = true
	streams.Streams = 200
	streams.Steps = append(streams.Steps, play.Step{At: warm, Phase: "more clients open streams", Do: func(_ context.Context, s *play.Stage) error {
		return s.Clients.OpenStreams(200, 40)
	}})

	gc := sudden("gcpressure", "none: requests allocate much, and the collector keeps up", length, gateway.Faults{Garbage: 256 << 10})
	return []play.Scenario{healthy, busy, growth, drop, rolling, gaps, streams, gc}
}
