//go:build unix

package fleet

import "syscall"

// ownGroup keeps the terminal's Ctrl-C from a task: it is for the fleet's process,
// which then ends its tasks in order.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
