// Package metrics keeps the figures of the business that orders are priced by
// (sales an hour, stock turn). Despite its name it is application state.
package metrics

import "sync"

// Figures are sales by product.
type Figures struct {
	mu    sync.Mutex
	sales map[string]int
	load  func() error
}

// New makes Figures that are refreshed with load.
func New(load func() error) *Figures { return &Figures{sales: map[string]int{}, load: load} }

// Price prices an order by the figures, refreshed under the lock: the fault.
func (f *Figures) Price(product string) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sales[product]++
	if err := f.load(); err != nil {
		return 0, err
	}
	return 100 + f.sales[product], nil
}
