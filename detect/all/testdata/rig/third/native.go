package main

// #include <unistd.h>
import "C"

import "net/http"

// cgoUsleep calls into C for a second, as a client library in C would.
func cgoUsleep() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { C.usleep(900000) })
}
