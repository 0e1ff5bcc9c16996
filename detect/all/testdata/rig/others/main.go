// Command others runs one small service with one known fault, or none, on
// loopback, puts load on it, and writes what an on-call engineer would
// collect: goroutine profiles, dumps, and block and mutex profiles.
//
// The parent is the service. Dependencies, and half of the clients, are the
// program itself run again, so that they do not show in the service's stacks.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sort"
	"time"
)

// service is one case.
type service struct {
	start  func(dep addresses) http.Handler // nil handler: works without requests
	load   plan
	inside bool          // clients are goroutines of the service itself
	warm   time.Duration // before the first look; 2.5 s where 0
}

func main() {
	name := flag.String("case", "", "case to run; empty lists them")
	out := flag.String("out", ".", "directory to put the capture's folder in")
	role := flag.String("role", "", "internal: dependency or load")
	flag.Parse()
	switch *role {
	case "dependency":
		dependency()
		return
	case "load":
		var p plan
		if err := json.NewDecoder(os.Stdin).Decode(&p); err != nil {
			log.Fatal(err)
		}
		go exitWithParent()
		p.run()
		select {}
	}
	cases := services()
	s, ok := cases[*name]
	if !ok {
		names := make([]string, 0, len(cases))
		for n := range cases {
			names = append(names, n)
		}
		sort.Strings(names)
		for _, n := range names {
			fmt.Println(n)
		}
		return
	}
	runtime.GOMAXPROCS(2)
	runtime.SetBlockProfileRate(10000) // ns
	runtime.SetMutexProfileFraction(5)
	var dep addresses
	child("dependency", nil, &dep)
	p := s.load
	if h := s.start(dep); h != nil {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			log.Fatal(err)
		}
		p.Addr = l.Addr().String()
		go (&http.Server{Handler: h}).Serve(l)
	} else if chatAddr != "" {
		p.Addr = chatAddr
	}
	switch {
	case p.Kind == "":
	case s.inside:
		p.run()
	default:
		child("load", p, nil)
	}
	if s.warm == 0 {
		s.warm = 2500 * time.Millisecond
	}
	time.Sleep(s.warm)
	capture(filepath.Join(*out, *name))
}

// child runs this program again in a role. Its stdin stays open until the
// parent ends, which ends the child.
func child(role string, in, out any) {
	cmd := exec.Command(os.Args[0], "-role", role)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		log.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		log.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		log.Fatal(err)
	}
	if in != nil {
		json.NewEncoder(stdin).Encode(in)
	}
	if out != nil {
		if err := json.NewDecoder(stdout).Decode(out); err != nil {
			log.Fatal(err)
		}
	}
	keep = append(keep, stdin, stdout)
}

var keep []any // pipes of children, open as long as the parent lives

func exitWithParent() {
	buf := make([]byte, 16)
	for {
		if _, err := os.Stdin.Read(buf); err != nil {
			os.Exit(0)
		}
	}
}
