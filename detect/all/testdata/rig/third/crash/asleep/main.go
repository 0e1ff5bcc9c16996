// Command asleep ends with "all goroutines are asleep", without any lock: nobody receives.
package main

import "sync"

func produce(out chan<- int, wg *sync.WaitGroup) {
	defer wg.Done()
	for i := range 3 {
		out <- i
	}
}

func main() {
	out := make(chan int)
	var wg sync.WaitGroup
	for range 3 {
		wg.Add(1)
		go produce(out, &wg)
	}
	wg.Wait()
}
