package play

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/contend/contend/demo/balancer"
	"github.com/contend/contend/demo/cdn"
	"github.com/contend/contend/demo/fleet"
	"github.com/contend/contend/demo/gateway"
	"github.com/contend/contend/demo/load"
)

// assetPath is the one file of the release that does not arrive.
const assetPath = "/assets/object-panel.js"

// Stage is a scenario that is being played; steps act on it.
type Stage struct {
	Fleet    *fleet.Fleet
	CDN      *cdn.CDN
	Clients  *load.Generator
	Upstream *Upstream // nil where tasks have none

	scenario Scenario
	edge     string // URL that clients know
	balancer *balancer.Balancer
	servers  []*http.Server

	lock     sync.Mutex
	visits   float64 // visitors a second, as steps want it
	arriving float64 // visitors a second now
}

// Visit lets visitors of the new page arrive, so many a second; while it hangs,
// Scenario.Reloads instead.
func (s *Stage) Visit(perSecond float64) error {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.visits = perSecond
	return s.visit(perSecond)
}

// StopVisits lets no more visitors arrive.
func (s *Stage) StopVisits() {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.visits = 0
	s.Clients.StopVisits()
}

// visit must be called with the lock held.
func (s *Stage) visit(perSecond float64) error {
	v := s.scenario.Visitors
	v.PerSecond = perSecond
	v.Asset = s.edge + assetPath
	s.arriving = perSecond
	return s.Clients.Visit(v)
}

// reload has people reload a page that hangs, until ctx ends.
func (s *Stage) reload(ctx context.Context) {
	before := s.Clients.Stats()
	for fleet.Wait(ctx, reloadEvery) == nil {
		now := s.Clients.Stats()
		failed := now.Failed + now.TimedOut - before.Failed - before.TimedOut
		ended := failed + now.Answered - before.Answered
		hangs := now.InFlight > hanging || failed*20 > ended
		before = now
		s.lock.Lock()
		rate := s.visits
		if hangs && rate > 0 {
			rate = max(rate, s.scenario.Reloads)
		}
		if rate != s.arriving && rate > 0 {
			_ = s.visit(rate) // the address and the rate have been accepted before
		}
		s.lock.Unlock()
	}
}

const (
	// reloadEvery is how soon people are told that a page hangs.
	reloadEvery = Scrape
	// hanging is how many calls wait when pages are seen to hang: what the surge
	// brings in a third of a second. One call in twenty that fails is seen too.
	hanging = 600
)

// Connect opens connections to the tasks in turn, n in all and so many a second,
// past the edge and the balancer, and sends nothing on them: a pool that leaks.
// It returns when all are open; they stay so until ctx ends.
func (s *Stage) Connect(ctx context.Context, n int, perSecond float64) {
	for i := range n {
		if fleet.Wait(ctx, time.Duration(float64(time.Second)/perSecond)) != nil {
			return
		}
		tasks := s.Fleet.Tasks()
		if len(tasks) == 0 {
			continue
		}
		dialer := net.Dialer{Timeout: time.Second}
		conn, err := dialer.DialContext(ctx, "tcp", strings.TrimPrefix(tasks[i%len(tasks)].URL, "http://"))
		if err != nil {
			continue // a task that dies meanwhile
		}
		context.AfterFunc(ctx, func() { conn.Close() })
	}
}

// serve serves a handler on loopback and returns its URL.
func (s *Stage) serve(h http.Handler) (string, error) {
	listener, err := net.Listen("tcp", gateway.Loopback)
	if err != nil {
		return "", fmt.Errorf("listen on loopback: %w", err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	s.servers = append(s.servers, server)
	go server.Serve(listener)
	return "http://" + listener.Addr().String(), nil
}

// build puts the parts up, from the upstream to the edge; the tasks are ready then.
func (s *Stage) build(ctx context.Context, o Options, r *run) error {
	sc := &s.scenario
	if sc.Upstream {
		up, err := startUpstream()
		if err != nil {
			return err
		}
		s.Upstream = up
		sc.Gateway.Upstream = up.url
	}
	s.balancer = balancer.New(sc.Balancer)
	cfg := sc.Fleet
	cfg.Command = o.Command
	cfg.Task = func(name string) gateway.Config {
		g := sc.Gateway
		g.Name, g.Pyroscope = name, o.Pyroscope
		return g
	}
	cfg.Changed = s.balancer.SetTasks
	cfg.Stats = s.balancer.Stats
	cfg.Event = r.fleetEvent
	var err error
	if s.Fleet, err = fleet.Start(ctx, cfg); err != nil {
		return fmt.Errorf("start the tasks: %w", err)
	}
	if s.CDN, err = cdn.New(cdn.Config{Next: s.balancer, Asset: assetPath, Fetch: sc.Asset, Seed: o.Seed, Limit: sc.EdgeLimit}); err != nil {
		return fmt.Errorf("start the CDN: %w", err)
	}
	if s.edge, err = s.serve(s.CDN); err != nil {
		return err
	}
	metrics := http.NewServeMux()
	metrics.Handle("/cdn/metrics", s.CDN.Metrics())
	metrics.Handle("/fleet/metrics", s.Fleet.Metrics())
	parts, err := s.serve(metrics)
	if err != nil {
		return err
	}
	return errors.Join(
		r.recorder.Add(Target{Job: "cdn", Instance: "cdn-1", Metrics: parts + "/cdn/metrics"}),
		r.recorder.Add(Target{Job: "kubelet", Instance: "node-1", Metrics: parts + "/fleet/metrics"}))
}

// tearDown ends all parts and waits for the tasks to be gone.
func (s *Stage) tearDown() {
	for _, server := range s.servers {
		server.Close()
	}
	if s.Fleet != nil {
		s.Fleet.Stop()
	}
	if s.CDN != nil {
		s.CDN.Close()
	}
	if s.Upstream != nil {
		s.Upstream.stop()
	}
}
