package main

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"example.com/orders/internal/catalog"
	commitlog "example.com/orders/internal/log"
	"example.com/orders/internal/logging"
	"example.com/orders/internal/metrics"
)

// services by name; those that need libraries are added in libs.go.
var services = map[string]service{
	"stdlog-stopped":       {clients: 150, inside: true, log: "stopped", serve: stdlog},
	"print-stopped":        {clients: 150, log: "stopped", serve: printing},
	"rwmutex-slow-reader":  {clients: 150, serve: slowReader},
	"three-sites":          {clients: 150, inside: true, serve: threeSites},
	"chain":                {clients: 150, serve: chain},
	"never-unlocked":       {clients: 150, serve: neverUnlocked},
	"once-hangs":           {clients: 150, inside: true, serve: onceHangs},
	"shards":               {clients: 160, serve: shards},
	"metrics-package":      {clients: 150, serve: metricsPackage},
	"consumer":             {clients: 0, inside: true, serve: consumer},
	"locked-twice":         {clients: 100, serve: lockedTwice},
	"cycle-of-three":       {clients: 120, inside: true, serve: cycleOfThree},
	"read-lock-twice":      {clients: 120, serve: readLockTwice},
	"waitgroup-under-lock": {clients: 120, serve: waitGroupUnderLock},
	"leaked-outer-method":  {clients: 150, serve: leakedOuterMethod},
	"convoy-outer-method":  {clients: 150, serve: convoyOuterMethod},
	"helper-under-lock":    {clients: 120, serve: helperUnderLock},
	"embedded-mutex":       {clients: 150, inside: true, serve: embeddedMutex},
	"generic-cache":        {clients: 150, serve: genericCache},
	"background-lock":      {clients: 20, serve: backgroundLock},
	"inhouse-logger":       {clients: 150, log: "slow", serve: inhouseLogger},
	"commit-log":           {clients: 150, serve: commitLog},
	"logs-under-lock":      {clients: 150, log: "stopped", serve: logsUnderLock},
	"log-healthy":          {clients: 20, inside: true, serve: logHealthy},
}

// handle serves HTTP; n is the number of the request.
func handle(ln net.Listener, h func(n int64, w http.ResponseWriter, r *http.Request)) {
	var n atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("/order/", func(w http.ResponseWriter, r *http.Request) { h(n.Add(1), w, r) })
	http.Serve(ln, mux)
}

var text = strings.Repeat("ordered and paid ", 50) // with it a line is near 1 kB

// stdlog: package log writes to a stderr that nobody reads any more.
func stdlog(ln net.Listener) {
	handle(ln, func(n int64, w http.ResponseWriter, r *http.Request) {
		log.Printf("order %d %s", n, text)
	})
}

// printing: handlers print to stdout, with no lock but the descriptor's own.
func printing(ln net.Listener) {
	handle(ln, func(n int64, w http.ResponseWriter, r *http.Request) {
		printReceipt(n)
	})
}

func printReceipt(n int64) {
	fmt.Fprintln(os.Stdout, "receipt", n, text)
}

// slowReader: an export holds the read lock over a slow call, a writer waits
// for it, and later readers wait for the writer.
func slowReader(ln net.Listener) {
	c := catalog.New()
	go func() {
		for {
			c.Export(func(map[string]int) error { return ask(400) })
			time.Sleep(5 * time.Millisecond)
		}
	}()
	go func() {
		for i := 0; ; i++ {
			c.SetPrice("tea", i)
			time.Sleep(2 * time.Millisecond)
		}
	}()
	handle(ln, func(n int64, w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, c.Price("tea"))
	})
}

// stock has one lock and three methods that take it equally often.
type stock struct {
	mu    sync.Mutex
	count map[int64]int
	file  *os.File
}

func (s *stock) reserve(n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count[n%100]--
	return s.save()
}

func (s *stock) refill(n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count[n%100]++
	return s.save()
}

func (s *stock) level(n int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count[n%100], s.save()
}

func (s *stock) save() error { return ask(4) }

func threeSites(ln net.Listener) {
	s := &stock{count: map[int64]int{}}
	handle(ln, func(n int64, w http.ResponseWriter, r *http.Request) {
		switch n % 3 {
		case 0:
			s.reserve(n)
		case 1:
			s.refill(n)
		default:
			s.level(n)
		}
	})
}

// carts and rates: the holder of the carts' lock waits for that of the rates,
// whose holder is in a slow call.
type carts struct {
	mu    sync.Mutex
	total int
	rates *rates
}

func (c *carts) add(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total += c.rates.convert(int(n))
}

type rates struct {
	mu   sync.Mutex
	rate int
}

func (r *rates) convert(amount int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return amount * r.rate
}

func (r *rates) refresh() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rate++
	return ask(15)
}

func chain(ln net.Listener) {
	c := &carts{rates: &rates{}}
	go func() {
		for {
			c.rates.refresh()
		}
	}()
	handle(ln, func(n int64, w http.ResponseWriter, r *http.Request) { c.add(n) })
}

// coupons forgets to unlock when a coupon is not known.
type coupons struct {
	mu    sync.Mutex
	known map[int64]bool
}

var errUnknown = errors.New("unknown coupon")

func (c *coupons) redeem(n int64) error {
	c.mu.Lock()
	if c.known[n] {
		return errUnknown // the fault: locked
	}
	c.known[n] = true
	c.mu.Unlock()
	return nil
}

func neverUnlocked(ln net.Listener) {
	c := &coupons{known: map[int64]bool{}}
	handle(ln, func(n int64, w http.ResponseWriter, r *http.Request) {
		if c.redeem(n%1000) != nil {
			http.Error(w, "unknown coupon", http.StatusNotFound)
		}
	})
}

// settings are loaded once, from a server that accepts and never answers.
type settings struct {
	once sync.Once
	tax  string
}

func (s *settings) get() string {
	s.once.Do(s.load)
	return s.tax
}

func (s *settings) load() {
	c, err := net.Dial("tcp", sinkAddr)
	if err != nil {
		return
	}
	defer c.Close()
	answer, _ := io.ReadAll(c)
	s.tax = string(answer)
}

func onceHangs(ln net.Listener) {
	var s settings
	handle(ln, func(n int64, w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, s.get()) })
}

// shard is one of sixteen with a lock each; all are loaded alike.
type shard struct {
	mu   sync.Mutex
	seen map[int64]bool
}

func (s *shard) visit(n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[n] = true
	return ask(60)
}

func shards(ln net.Listener) {
	var all [16]shard
	for i := range all {
		all[i].seen = map[int64]bool{}
	}
	handle(ln, func(n int64, w http.ResponseWriter, r *http.Request) { all[n%16].visit(n) })
}

// metricsPackage: application state in a package named internal/metrics.
func metricsPackage(ln net.Listener) {
	f := metrics.New(func() error { return ask(4) })
	handle(ln, func(n int64, w http.ResponseWriter, r *http.Request) { f.Price("tea") })
}

// ledger is written by the workers of a queue's consumer; no handlers.
type ledger struct {
	mu  sync.Mutex
	sum int
}

func (l *ledger) book(amount int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sum += amount
	return ask(5)
}

func consumer(net.Listener) {
	queue := make(chan int, 100)
	l := &ledger{}
	for i := 0; i < 50; i++ {
		go work(queue, l)
	}
	for i := 0; ; i++ {
		queue <- i
	}
}

func work(queue <-chan int, l *ledger) {
	for amount := range queue {
		l.book(amount)
	}
}

// account locks itself twice: a refund that is larger than the balance asks for the balance again.
type account struct {
	mu      sync.Mutex
	balance int
}

func (a *account) current() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.balance
}

func (a *account) refund(amount int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.balance < amount {
		log.Print("short by ", amount-a.current()) // the fault
	}
	a.balance -= amount
}

func lockedTwice(ln net.Listener) {
	a := &account{balance: 1000}
	handle(ln, func(n int64, w http.ResponseWriter, r *http.Request) {
		if n == 1000 {
			a.refund(5000)
		}
		fmt.Fprintln(w, a.current())
	})
}

// depot, fleet and desk each hold their own lock and ask the next.
type depot struct {
	mu    sync.Mutex
	fleet *fleet
	n     int
}
type fleet struct {
	mu   sync.Mutex
	desk *desk
	n    int
}
type desk struct {
	mu    sync.Mutex
	depot *depot
	n     int
}

func (d *depot) pack(deep bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.n++
	if deep {
		time.Sleep(10 * time.Millisecond)
		d.fleet.drive(false)
	}
}

func (f *fleet) drive(deep bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	if deep {
		time.Sleep(10 * time.Millisecond)
		f.desk.sign(false)
	}
}

func (d *desk) sign(deep bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.n++
	if deep {
		time.Sleep(10 * time.Millisecond)
		d.depot.pack(false)
	}
}

func cycleOfThree(ln net.Listener) {
	d := &depot{fleet: &fleet{desk: &desk{}}}
	d.fleet.desk.depot = d
	handle(ln, func(n int64, w http.ResponseWriter, r *http.Request) {
		switch n % 3 {
		case 0:
			d.pack(true)
		case 1:
			d.fleet.drive(true)
		default:
			d.fleet.desk.sign(true)
		}
	})
}

// readLockTwice: a read lock taken again below itself, a writer in between.
func readLockTwice(ln net.Listener) {
	c := catalog.New()
	go func() {
		for i := 0; ; i++ {
			c.SetPrice("tea", i)
			time.Sleep(time.Millisecond)
		}
	}()
	handle(ln, func(n int64, w http.ResponseWriter, r *http.Request) {
		if n%50 == 0 {
			fmt.Fprintln(w, c.Discount("tea", func() { time.Sleep(5 * time.Millisecond) }))
			return
		}
		fmt.Fprintln(w, c.Price("tea"))
	})
}

// invoices adds its lines concurrently, and waits for them under the lock they take.
type invoices struct {
	mu  sync.Mutex
	wg  sync.WaitGroup
	sum int
}

func (v *invoices) add(amount int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.sum += amount
}

func (v *invoices) closeMonth() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := 0; i < 4; i++ {
		v.wg.Add(1)
		go func(i int) {
			defer v.wg.Done()
			v.add(i)
		}(i)
	}
	v.wg.Wait()
}

func waitGroupUnderLock(ln net.Listener) {
	v := &invoices{}
	handle(ln, func(n int64, w http.ResponseWriter, r *http.Request) {
		if n == 1000 {
			v.closeMonth()
		}
		v.add(1)
	})
}

// logHealthy: handlers log to a stderr that is read, and do a little else.
func logHealthy(ln net.Listener) {
	log.SetOutput(io.Discard)
	handle(ln, func(n int64, w http.ResponseWriter, r *http.Request) {
		time.Sleep(5 * time.Millisecond)
		fmt.Fprintf(os.Stderr, "")
		log.Printf("order %d", n)
	})
}

// coupons' audit takes no lock itself: it only calls what does.
func (c *coupons) audit(n int64) {
	time.Sleep(time.Millisecond)
	c.redeem(n)
}

// leakedOuterMethod: a lock that was never released, and one goroutine that came
// to it by another method of the same object, which holds nothing.
func leakedOuterMethod(ln net.Listener) {
	c := &coupons{known: map[int64]bool{}}
	go func() {
		for n := int64(-1); ; n-- {
			c.audit(n)
		}
	}()
	handle(ln, func(n int64, w http.ResponseWriter, r *http.Request) { c.redeem(n % 3000) })
}

// tally is locked briefly and very often; sweep calls the method that locks, and holds nothing.
type tally struct {
	mu    sync.Mutex
	total map[int64]int
}

func (t *tally) count(n int64) {
	t.mu.Lock()
	t.total[n%512]++
	for i := int64(0); i < 50; i++ {
		t.total[i%512] += int(n)
	}
	t.mu.Unlock()
}

// It is not inlined, as a longer method would not be.
//
//go:noinline
func (t *tally) sweep() {
	for i := int64(0); ; i++ {
		t.count(i)
	}
}

func convoyOuterMethod(ln net.Listener) {
	t := &tally{total: map[int64]int{}}
	go t.sweep()
	handle(ln, func(n int64, w http.ResponseWriter, r *http.Request) {
		for i := int64(0); i < 2000; i++ {
			t.count(n + i)
		}
	})
}

// gifts: wrap holds the lock while a goroutine it started, which
// needs no lock, waits for the back end. The result comes over a channel.
type gifts struct {
	mu      sync.Mutex
	wrapped int
}

func (g *gifts) wrap() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	done := make(chan error, 1)
	go func() { done <- ask(10) }()
	g.wrapped++
	return <-done
}

func (g *gifts) number() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.wrapped
}

func helperUnderLock(ln net.Listener) {
	g := &gifts{}
	handle(ln, func(n int64, w http.ResponseWriter, r *http.Request) {
		if n%4 == 0 {
			g.wrap()
		}
		fmt.Fprintln(w, g.number())
	})
}

// prices embeds its lock, and plain functions take it.
type prices struct {
	sync.RWMutex
	of map[string]int
}

func quote(p *prices, name string) int {
	p.RLock()
	defer p.RUnlock()
	return p.of[name]
}

func reprice(p *prices, name string) error {
	p.Lock()
	defer p.Unlock()
	p.of[name]++
	return ask(5)
}

func embeddedMutex(ln net.Listener) {
	p := &prices{of: map[string]int{}}
	handle(ln, func(n int64, w http.ResponseWriter, r *http.Request) {
		if n%2 == 0 {
			reprice(p, "tea")
		} else {
			fmt.Fprintln(w, quote(p, "tea"))
		}
	})
}

// cache is generic, and fills a missing entry under its lock by a closure.
type cache[K comparable, V any] struct {
	mu      sync.Mutex
	entries map[K]V
}

func (c *cache[K, V]) getOr(key K, fill func() (V, error)) (V, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v, ok := c.entries[key]; ok {
		return v, nil
	}
	v, err := fill()
	if err == nil {
		c.entries[key] = v
	}
	return v, err
}

func genericCache(ln net.Listener) {
	c := &cache[int64, string]{entries: map[int64]string{}}
	handle(ln, func(n int64, w http.ResponseWriter, r *http.Request) {
		v, _ := c.getOr(n, func() (string, error) { return "tea", ask(4) })
		fmt.Fprintln(w, v)
	})
}

// backgroundLock: healthy requests beside thirty background goroutines that
// take turns at a lock which no request needs.
func backgroundLock(ln net.Listener) {
	l := &ledger{}
	for i := 0; i < 30; i++ {
		go func(i int) {
			for {
				l.book(i)
			}
		}(i)
	}
	handle(ln, func(n int64, w http.ResponseWriter, r *http.Request) {
		time.Sleep(20 * time.Millisecond)
	})
}

// inhouseLogger: a logger of the application's own, before a slow pipe.
func inhouseLogger(ln net.Listener) {
	l := logging.New(os.Stderr)
	handle(ln, func(n int64, w http.ResponseWriter, r *http.Request) { l.Infof("order %d %s", n, text) })
}

// commitLog: a package named log that is no telemetry.
func commitLog(ln net.Listener) {
	s := commitlog.Open(func() error { return ask(4) })
	handle(ln, func(n int64, w http.ResponseWriter, r *http.Request) { s.Append([]byte(r.URL.Path)) })
}

// logsUnderLock: an application's lock is held over a log line, and nobody
// reads the log any more.
func logsUnderLock(ln net.Listener) {
	l := &ledger{}
	handle(ln, func(n int64, w http.ResponseWriter, r *http.Request) { l.bookLogged(int(n)) })
}

func (l *ledger) bookLogged(amount int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sum += amount
	log.Printf("booked %d %s", amount, text)
}
