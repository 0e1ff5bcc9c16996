package main

import (
	"io"
	"net"
	"net/http"
	"sync"
)

// parkHTTP leaves 14 connections open: 6 wait for a lock in their handler, 5
// for a channel, 3 are idle. 3 more requests wait for a connection.
func parkHTTP() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := &server{}
	s.mu.Lock()
	s.together.Add(3)
	mux := http.NewServeMux()
	mux.HandleFunc("/locked", s.locked)
	mux.HandleFunc("/slow", s.slow)
	mux.HandleFunc("/together", s.meet)
	go http.Serve(l, mux)
	url := "http://" + l.Addr().String()

	idle := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 3}}
	var done sync.WaitGroup
	done.Add(3)
	start(3, func() {
		defer done.Done()
		fetch(idle, url+"/together")
	})
	done.Wait()

	many := &http.Client{Transport: &http.Transport{}}
	start(6, func() { getLocked(many, url) })
	start(4, func() { getSlow(many, url) })
	one := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
	s.entered = make(chan bool)
	go holdConn(one, url)
	<-s.entered
	start(3, func() { waitConn(one, url) })
	return nil
}

type server struct {
	mu       sync.Mutex
	together sync.WaitGroup
	entered  chan bool
}

func (s *server) locked(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	work()
}

func (s *server) slow(w http.ResponseWriter, r *http.Request) {
	if r.URL.RawQuery == "hold" {
		s.entered <- true
	}
	<-never
}

// meet answers three requests at once, so that they need three connections.
func (s *server) meet(w http.ResponseWriter, r *http.Request) {
	s.together.Done()
	s.together.Wait()
}

func getLocked(c *http.Client, url string) { fetch(c, url+"/locked"); work() }
func getSlow(c *http.Client, url string)   { fetch(c, url+"/slow"); work() }
func holdConn(c *http.Client, url string)  { fetch(c, url+"/slow?hold"); work() }
func waitConn(c *http.Client, url string)  { fetch(c, url+"/slow"); work() }

func fetch(c *http.Client, url string) {
	resp, err := c.Get(url)
	if err != nil {
		return
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
}
