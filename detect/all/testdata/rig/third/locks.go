package main

import (
	"fmt"
	"log"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	bolt "go.etcd.io/bbolt"
)

// hub sends each event to all subscribers while it holds its lock: the one
// whose client does not read stops it.
type hub struct {
	mu   sync.Mutex
	subs map[chan []byte]bool
}

func (h *hub) subscribe() chan []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	ch := make(chan []byte, 4)
	h.subs[ch] = true
	return ch
}

func (h *hub) publish(event []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for ch := range h.subs {
		ch <- event
	}
}

func sseBroadcast() http.Handler {
	h := &hub{subs: map[chan []byte]bool{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/events", func(w http.ResponseWriter, r *http.Request) {
		ch := h.subscribe()
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		for {
			select {
			case e := <-ch:
				w.Write(e)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	})
	mux.HandleFunc("/publish", func(w http.ResponseWriter, r *http.Request) { h.publish(make([]byte, 1<<20)) })
	return mux
}

// directory calls back under its read lock.
type directory struct {
	mu      sync.RWMutex
	entries map[int]string
}

func (d *directory) Range(f func(int, string)) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	for k, v := range d.entries {
		f(k, v)
	}
}

func (d *directory) lookup(k int) string {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.entries[k]
}

func (d *directory) set(k int, v string) {
	d.mu.Lock()
	d.entries[k] = v
	d.mu.Unlock()
}

func rangeCallback() http.Handler {
	d := &directory{entries: map[int]string{}}
	for i := range 40 {
		d.set(i, "entry")
	}
	go func() {
		for {
			d.Range(func(k int, v string) { ask(http.DefaultClient, upstream.HTTP+"/?ms=20") })
		}
	}()
	go func() {
		for i := range time.Tick(100 * ms) {
			d.set(i.Nanosecond()%40, "new")
		}
	}()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, d.lookup(7)) })
}

// keyed has a lock for each key.
type keyed struct{ locks [64]sync.Mutex }

func (k *keyed) do(key int, f func()) {
	k.locks[key].Lock()
	defer k.locks[key].Unlock()
	f()
}

func keyedHot() http.Handler {
	k := &keyed{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := 0 // the hot one
		if rand.N(10) < 3 {
			key = 1 + rand.N(63)
		}
		k.do(key, func() { time.Sleep(8 * ms) })
	})
}

// journal writes under its lock, to what takes its time as a slow disk does.
type journal struct {
	mu sync.Mutex
	f  *os.File
}

func (j *journal) append(record []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.f.Write(record)
	j.f.Sync()
}

func journalPipe() http.Handler {
	var fds [2]int
	if err := syscall.Pipe(fds[:]); err != nil { // blocking, as files are
		log.Fatal(err)
	}
	go func() {
		buf := make([]byte, 4096)
		for range time.Tick(10 * ms) {
			syscall.Read(fds[0], buf)
		}
	}()
	j := &journal{f: os.NewFile(uintptr(fds[1]), "journal")}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { j.append(make([]byte, 4096)) })
}

func lruConvoy() http.Handler {
	cache, err := lru.New[int, string](10000)
	if err != nil {
		log.Fatal(err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for range 3000 {
			if k := rand.N(20000); !cache.Contains(k) {
				cache.Add(k, "value")
			} else {
				cache.Get(k)
			}
		}
	})
}

// templates builds what is missing one at a time.
type templates struct {
	built sync.Map
	mu    sync.Mutex
}

func (t *templates) get(name string) any {
	if v, ok := t.built.Load(name); ok {
		return v
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	v, _ := t.built.LoadOrStore(name, t.build(name))
	return v
}

func (t *templates) build(name string) string {
	time.Sleep(10 * ms)
	return name
}

func syncMapConstructor() http.Handler {
	t := &templates{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { t.get(fmt.Sprint(rand.N(1 << 40))) })
}

// bloggerDirectory is no logger.
type bloggerDirectory struct {
	mu    sync.Mutex
	names map[string]bool
}

func (d *bloggerDirectory) find(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	time.Sleep(8 * ms)
	return d.names[name]
}

func bloggerIndex() http.Handler {
	d := &bloggerDirectory{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { d.find(r.URL.Path) })
}

// spooler keeps print jobs; it is no pool.
type spooler struct {
	mu   sync.Mutex
	jobs []string
}

func (s *spooler) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.jobs) == 0 {
		s.jobs = make([]string, 100)
	}
	time.Sleep(6 * ms) // sorts by priority
	job := s.jobs[0]
	s.jobs = s.jobs[1:]
	return job
}

func spoolerTake() http.Handler {
	s := &spooler{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.take() })
}

// bus has one consumer, which asks the upstream for each event.
type bus struct{ events chan string }

func (b *bus) publish(event string) { b.events <- event }

func (b *bus) deliver() {
	for range b.events {
		ask(http.DefaultClient, upstream.HTTP+"/?ms=40")
	}
}

func publishFull() http.Handler {
	b := &bus{make(chan string, 8)}
	go b.deliver()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { b.publish("sold") })
}

// ledger locks in one method and unlocks in another, as transactions do.
type ledger struct {
	mu   sync.Mutex
	rows int
}

func (l *ledger) begin()  { l.mu.Lock() }
func (l *ledger) commit() { l.rows++; l.mu.Unlock() }

func beginEnd() http.Handler {
	l := &ledger{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.begin()
		ask(http.DefaultClient, upstream.HTTP+"/?ms=10")
		l.commit()
	})
}

func boltUpdates() http.Handler {
	dir, err := os.MkdirTemp("", "bolt")
	if err != nil {
		log.Fatal(err)
	}
	db, err := bolt.Open(filepath.Join(dir, "db"), 0o600, nil)
	if err != nil {
		log.Fatal(err)
	}
	os.RemoveAll(dir) // the open file stays usable
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		db.Update(func(tx *bolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte("orders"))
			if err != nil {
				return err
			}
			return b.Put([]byte(fmt.Sprint(rand.N(1<<40))), make([]byte, 2000))
		})
	})
}

func fiveRequests() http.Handler {
	stock := &inventory{left: map[string]int{}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for range 20 {
			stock.reserve("pen")
		}
	})
}

type seats struct {
	mu   sync.Mutex
	free int
}

// book forgets to unlock when there are none.
func (s *seats) book() bool {
	s.mu.Lock()
	if s.free == 0 {
		return false
	}
	s.free--
	s.mu.Unlock()
	return true
}

func hungDumps() http.Handler {
	between, early = 10*time.Second, true
	s := &seats{free: 100}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.book() })
}
