//go:build !unix

package gateway

// allocate takes from the heap, where nothing else is portable.
func allocate(size int) []byte { return make([]byte, size) }

func free([]byte) {}
