package main

import (
	"context"
	"io"
	"maps"
	"net/http"
	"time"
)

func services() map[string]service {
	all := map[string]service{}
	for _, m := range []map[string]service{healthy(), pools(), downstream(), cpu(), leaks(), consumers(), mixed(), ownClients()} {
		maps.Copy(all, m)
	}
	return all
}

// closed is n clients that ask again at once.
func closed(n int) plan { return plan{Kind: "closed", N: n, Timeout: 20 * time.Second} }

// upstream is a client of the HTTP dependency with room for many connections.
func upstream() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 500, MaxIdleConns: 500}}
}

func fetch(ctx context.Context, c *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return err
	}
	res, err := c.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return err
}

func ok(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	io.WriteString(w, "ok\n")
}
