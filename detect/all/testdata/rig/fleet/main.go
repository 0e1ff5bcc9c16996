// Command fleet simulates fleets of a service with one known fault, or none,
// and writes the series that a Prometheus server would have of them, with what
// is right to find in them.
package main

import (
	"flag"
	"fmt"
	"log"
	"runtime"
	"slices"
	"strings"
	"sync"
)

func main() {
	log.SetFlags(0)
	var opt options
	list := flag.Bool("list", false, "list the cases")
	only := flag.String("case", "", "cases to write, separated by commas; empty is all")
	out := flag.String("out", ".", "directory to put the cases' folders in")
	flag.IntVar(&opt.instances, "instances", 0, "at most so many tasks of a service, where the case allows it; 0 is no limit")
	flag.Float64Var(&opt.minutes, "minutes", 0, "at most so many minutes, where the case allows it; 0 is no limit")
	flag.Float64Var(&opt.interval, "interval", 0, "at least so many seconds between scrapes")
	flag.BoolVar(&opt.slim, "slim", false, "leave out what tells nothing of requests, CPU, memory, waiting, health and life, such as buckets")
	flag.Int64Var(&opt.draw, "draw", 0, "draw other numbers for the same scenarios")
	flag.Parse()
	if opt.minutes != 0 && opt.minutes < 80 {
		log.Fatal("expected -minutes 80 or more: a fault needs 45 minutes before it to stand out from, saw ", opt.minutes)
	}
	chosen := scenarios()
	if *only != "" {
		names := strings.Split(*only, ",")
		for _, name := range names {
			if !slices.ContainsFunc(chosen, func(sc scenario) bool { return sc.name == name }) {
				log.Fatalf("expected the name of a case, saw %q; -list shows them", name)
			}
		}
		chosen = slices.DeleteFunc(chosen, func(sc scenario) bool { return !slices.Contains(names, sc.name) })
	}
	if *list {
		for _, sc := range chosen {
			fmt.Printf("%-32s %s\n", sc.name, sc.dialect.title())
		}
		return
	}
	todo := make(chan scenario)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for sc := range todo {
				if err := newCase(sc, opt).run(*out); err != nil {
					log.Fatal(err)
				}
			}
		})
	}
	for _, sc := range chosen {
		todo <- sc
	}
	close(todo)
	workers.Wait()
}
