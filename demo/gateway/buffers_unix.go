//go:build unix

package gateway

import "syscall"

// allocate maps memory of no file. Where the system has none left, the heap must do.
func allocate(size int) []byte {
	b, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return make([]byte, size)
	}
	return b
}

// free gives b back. It fails for a slice of the heap, which needs nothing.
func free(b []byte) { _ = syscall.Munmap(b) }
