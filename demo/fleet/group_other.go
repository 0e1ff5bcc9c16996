//go:build !unix

package fleet

import "syscall"

// ownGroup asks for nothing, since there are no process groups.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
