package fleet

import (
	"syscall"

	"github.com/prometheus/procfs"
)

// dieWithParent has the kernel kill a task when the thread that started it ends.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// readUsage measures a process.
func readUsage(pid int) (usage, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return usage{}, err
	}
	stat, err := p.Stat()
	if err != nil {
		return usage{}, err
	}
	return usage{resident: int64(stat.ResidentMemory()), cpu: stat.CPUTime()}, nil
}
