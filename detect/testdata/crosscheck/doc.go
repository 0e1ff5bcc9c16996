// Package crosscheck holds what contend says of series to what a Prometheus
// server says of them, with the server's own code: its database, its rule
// groups and its alerts' states, evaluated step by step as a server does. It
// is a module of its own, since that code weighs several times what contend does.
//
// To run it:
//
//	cd detect/testdata/crosscheck && go test ./...
package crosscheck
