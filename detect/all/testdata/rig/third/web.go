package main

import (
	"context"
	"crypto/tls"
	"database/sql"
	"database/sql/driver"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"example.com/shop/internal/telemetry"
	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/labstack/echo/v4"
	"github.com/rs/zerolog"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"
)

func devNull() *os.File {
	f, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		log.Fatal(err)
	}
	return f
}

// slowPipe is a pipe that is read at about perSecond bytes.
func slowPipe(perSecond int) *os.File {
	r, w, err := os.Pipe()
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		buf := make([]byte, perSecond/50)
		for range time.Tick(20 * ms) {
			r.Read(buf)
		}
	}()
	return w
}

// sleepy is a service that is well: each request takes 30 ms of waiting.
func sleepy() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { time.Sleep(30 * ms) })
}

func chiZerolog() http.Handler {
	logger := zerolog.New(devNull()).With().Timestamp().Logger()
	r := chi.NewRouter()
	r.Use(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			began := time.Now()
			next.ServeHTTP(w, r)
			logger.Info().Str("path", r.URL.Path).Dur("took", time.Since(began)).Msg("served")
		})
	})
	r.Get("/", func(w http.ResponseWriter, r *http.Request) { time.Sleep(20 * ms) })
	return r
}

type inventory struct {
	mu   sync.Mutex
	left map[string]int
}

func (i *inventory) reserve(article string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.left[article]--
	time.Sleep(4 * ms) // stands for a call under the lock
}

func ginZapLock() http.Handler {
	gin.SetMode(gin.ReleaseMode)
	core := zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.Lock(devNull()), zap.InfoLevel)
	logger := zap.New(core)
	stock := &inventory{left: map[string]int{}}
	g := gin.New()
	g.Use(gin.Recovery(), func(c *gin.Context) {
		c.Next()
		logger.Info("served", zap.String("path", c.Request.URL.Path), zap.Int("status", c.Writer.Status()))
	})
	g.GET("/", func(c *gin.Context) {
		stock.reserve("pen")
		c.String(200, "ok")
	})
	return g
}

func echoSlogPipe() http.Handler {
	logger := slog.New(slog.NewJSONHandler(slowPipe(60000), nil))
	e := echo.New()
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			err := next(c)
			logger.Info("served", "path", c.Path(), "agent", c.Request().UserAgent(), "remote", c.RealIP())
			return err
		}
	})
	e.GET("/", func(c echo.Context) error { return c.String(200, "ok") })
	return e
}

func timeoutHandlerLock() http.Handler {
	stock := &inventory{left: map[string]int{}}
	return http.TimeoutHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { stock.reserve("pen") }), 10*time.Second, "late")
}

// prices asks the upstream for a price while it holds its lock.
type prices struct {
	mu   sync.Mutex
	last string
}

func (p *prices) refresh() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = ask(http.DefaultClient, upstream.HTTP+"/?ms=15")
}

func ask(c *http.Client, url string) string {
	res, err := c.Get(url)
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return string(b)
}

func lockHeldOverCall() http.Handler {
	p := &prices{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.refresh() })
}

func slowHTTP2() http.Handler  { return overHTTP2(900) }
func quickHTTP2() http.Handler { return overHTTP2(65) }

func overHTTP2(wait int) http.Handler {
	client := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { ask(client, upstream.HTTP2+"/?ms="+strconv.Itoa(wait)) })
}

func proxy(wait int) func() http.Handler {
	return func() http.Handler {
		u, err := url.Parse(upstream.HTTP + "/?ms=" + strconv.Itoa(wait))
		if err != nil {
			log.Fatal(err)
		}
		p := httputil.NewSingleHostReverseProxy(u)
		p.Transport = &http.Transport{MaxIdleConnsPerHost: 1000}
		return p
	}
}

func blackhole() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { ask(http.DefaultClient, upstream.Silent) })
}

// upstreamStalls asks what answers in 5 ms, until it stops to answer.
func upstreamStalls() http.Handler {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}
	began := time.Now()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		wait := "5"
		if time.Since(began) > 4*time.Second {
			wait = "60000"
		}
		ask(client, upstream.HTTP+"/?ms="+wait)
	})
}

// twoUpstreams asks a quick dependency very often, and a slow one at times.
func twoUpstreams() http.Handler {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}
	var n atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1)%30 == 0 {
			pay(client)
			return
		}
		search(client)
	})
}

func search(c *http.Client) { ask(c, upstream.HTTP+"/?ms=2") }
func pay(c *http.Client)    { ask(c, upstream.HTTP+"/?ms=1200") }

func execWait() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { exec.Command("sleep", "1").Run() })
}

func rateLimiter() http.Handler {
	l := rate.NewLimiter(100, 1)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { l.Wait(r.Context()) })
}

// grpcAddr is where the service's gRPC server listens.
var grpcAddr string

func grpcCounters() http.Handler {
	counters := telemetry.NewServerMetrics()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	s := grpc.NewServer(grpc.UnaryInterceptor(counters.UnaryServerInterceptor()))
	s.RegisterService(&grpc.ServiceDesc{ServiceName: "shop.Cart", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{MethodName: "Add", Handler: addToCart}}}, struct{}{})
	go s.Serve(l)
	grpcAddr = l.Addr().String()
	return nil
}

func addToCart(srv any, ctx context.Context, dec func(any) error, chain grpc.UnaryServerInterceptor) (any, error) {
	in := new(emptypb.Empty)
	if err := dec(in); err != nil {
		return nil, err
	}
	return chain(ctx, in, &grpc.UnaryServerInfo{FullMethod: "/shop.Cart/Add"}, func(ctx context.Context, req any) (any, error) { return req, nil })
}

// A database of which a statement takes 100 ms, with one connection.

type slowDB struct{}

func (slowDB) Open(string) (driver.Conn, error)          { return slowDB{}, nil }
func (slowDB) Prepare(string) (driver.Stmt, error)       { return slowDB{}, nil }
func (slowDB) Close() error                              { return nil }
func (slowDB) Begin() (driver.Tx, error)                 { return nil, driver.ErrSkip }
func (slowDB) NumInput() int                             { return 0 }
func (slowDB) Query([]driver.Value) (driver.Rows, error) { return nil, driver.ErrSkip }
func (slowDB) Exec([]driver.Value) (driver.Result, error) {
	time.Sleep(100 * ms)
	return driver.RowsAffected(1), nil
}

func poolOfOne() http.Handler {
	sql.Register("slow", slowDB{})
	db, err := sql.Open("slow", "")
	if err != nil {
		log.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { db.Exec("update") })
}
