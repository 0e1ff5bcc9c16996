// Package catalog keeps the products.
package catalog

import "sync"

// Catalog is a map of products under a read-write lock.
type Catalog struct {
	mu     sync.RWMutex
	prices map[string]int
}

// New makes an empty catalog.
func New() *Catalog { return &Catalog{prices: map[string]int{}} }

// Price reads one price.
func (c *Catalog) Price(name string) int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.prices[name]
}

// Export holds the read lock while send hands every price to somebody else: the fault.
func (c *Catalog) Export(send func(map[string]int) error) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return send(c.prices)
}

// SetPrice changes one price.
func (c *Catalog) SetPrice(name string, price int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.prices[name] = price
}

// Discount reads a price under a lock it already has: with a writer between, a deadlock.
func (c *Catalog) Discount(name string, between func()) int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	between()
	return c.Price(name) / 10
}
