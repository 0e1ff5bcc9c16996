// Command maps ends with "concurrent map writes", with handlers' goroutines beside it.
package main

import (
	"sync"
	"time"
)

func count(m map[int]int, from int) {
	for i := from; ; i++ {
		m[i%1000]++
	}
}

func main() {
	var wg sync.WaitGroup
	for range 12 {
		wg.Go(func() { time.Sleep(time.Hour) })
	}
	m := map[int]int{}
	for i := range 4 {
		wg.Go(func() { count(m, i) })
	}
	wg.Wait()
}
