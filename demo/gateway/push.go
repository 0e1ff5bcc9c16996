package gateway

import (
	"fmt"
	"time"

	"github.com/grafana/pyroscope-go"
)

// pushEvery is how often a task's profiles are pushed. The client's usual 15 s are
// 250 ms at 60 times the speed, and would cost four times as much.
const pushEvery = time.Second

// pushProfiles pushes this process's goroutine, block and mutex profiles to the
// Pyroscope server of its Config, as long as it runs; a server that cannot take
// them loses them, and the task goes on. It is the client's own way: its
// profiles of waits are differences since the push before, and the last one is
// not sent, so there is nothing to do at the end.
func pushProfiles(cfg Config) error {
	if cfg.Pyroscope == "" {
		return nil
	}
	_, err := pyroscope.Start(pyroscope.Config{
		ApplicationName: "gateway",
		Tags:            map[string]string{"instance": cfg.Name},
		ServerAddress:   cfg.Pyroscope,
		UploadRate:      pushEvery,
		ProfileTypes: []pyroscope.ProfileType{
			pyroscope.ProfileGoroutines,
			pyroscope.ProfileBlockCount, pyroscope.ProfileBlockDuration,
			pyroscope.ProfileMutexCount, pyroscope.ProfileMutexDuration,
		},
	})
	if err != nil {
		return fmt.Errorf("push profiles to %s: %w", cfg.Pyroscope, err)
	}
	return nil
}
