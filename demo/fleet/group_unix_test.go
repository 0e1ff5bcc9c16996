//go:build unix

package fleet

import (
	"syscall"
	"testing"
)

func TestOwnGroup(t *testing.T) {
	t.Parallel()
	f, _ := start(t, Config{})
	f.mu.Lock()
	pid := f.tasks[0].process.Pid
	f.mu.Unlock()
	if group, err := syscall.Getpgid(pid); err != nil || group != pid {
		t.Errorf("task %d is in group %d, want its own: %v", pid, group, err)
	}
}
