package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/report"
)

// incident is the demo's recorded run that the page has to show well.
const incident = "../../demo/scenarios/incident/bundle"

// reportPage writes the page of an input and returns its address.
func reportPage(t *testing.T, input string) string {
	t.Helper()
	var out, complaints bytes.Buffer
	if code := run([]string{"analyze", "-o", "html", input}, nil, &out, &complaints); code != exitOK {
		t.Fatalf("exit code %d: %s", code, &complaints)
	}
	path := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return "file://" + path
}

// browser is one tab of a headless Chromium that has a page open, and that fails
// the test for what the page writes to its console.
type browser struct {
	t       *testing.T
	ctx     context.Context
	expects string // in what the browser may say all the same
}

func openPage(t *testing.T, url string, before ...chromedp.Action[chromedp.Void]) *browser {
	t.Helper()
	if testing.Short() {
		t.Skip("draws pages in a browser")
	}
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		if os.Getenv("CONTEND_REQUIRE") != "" {
			t.Fatal("chromium is not installed, and CONTEND_REQUIRE is set")
		}
		t.Skip("needs chromium, which Debian's package chromium has")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program),
		chromedp.NoSandbox, // what runs tests is often root, or in a container
		chromedp.DisableGPU, chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(time.Minute))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, closeTab := chromedp.NewContext(allocator)
	t.Cleanup(closeTab)

	b := &browser{t: t, ctx: ctx}
	b.run() // the first start must have no time limit: the browser would end with it
	messages := chromedp.Console(ctx)
	ctx, late := context.WithTimeout(ctx, 2*time.Minute) // only against a browser that hangs
	t.Cleanup(late)
	b.ctx = ctx
	b.run(append(before, chromedp.Navigate(url))...)
	t.Cleanup(func() {
		// What breaks the content security policy is in the console too. A message of its
		// own says that all of the page's have come.
		const last = "no more messages"
		if err := chromedp.Do(ctx, command(runtime.Evaluate, runtime.EvaluateParams{Expression: `console.log("` + last + `")`})); err != nil {
			t.Error(err)
			return
		}
		for m, err := range messages {
			if err != nil {
				t.Error(err)
			}
			if err != nil || m.Text == last {
				return
			}
			if b.expects == "" || !strings.Contains(m.String(), b.expects) {
				t.Error("the page says in its console: " + m.String())
			}
		}
	})
	return b
}

func (b *browser) run(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// get is the value of an action.
func get[T any](b *browser, action chromedp.Action[T]) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, action)
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

// eval is the value of an expression in the page.
func eval[T any](b *browser, expression string) T {
	b.t.Helper()
	return get(b, chromedp.Evaluate[T](expression))
}

// keep writes a build output beside others, where CONTEND_SCREENSHOTS names a folder for them.
func (b *browser) keep(name string, content []byte) {
	b.t.Helper()
	dir := os.Getenv("CONTEND_SCREENSHOTS")
	if dir == "" {
		return
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// shoot takes pictures of the whole page, and of its sections.
func (b *browser) shoot(name string, sections ...string) {
	b.t.Helper()
	if os.Getenv("CONTEND_SCREENSHOTS") == "" {
		return
	}
	b.keep(name+".png", get(b, chromedp.FullScreenshot(100)))
	for _, s := range sections {
		b.keep(name+"-"+s+".png", get(b, chromedp.Screenshot(chromedp.CSS("#"+s))))
	}
}

func colorScheme(scheme string) chromedp.Action[chromedp.Void] {
	return command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
}

// command is an action that sends one command of the browser's protocol.
func command[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, c, params)
		return err
	})
}

func TestPageInABrowser(t *testing.T) {
	t.Parallel()
	url := reportPage(t, incident)
	sections := []string{"story", "time", "budget", "stacks", "findings", "ruledout", "missing"}
	for _, scheme := range []string{"light", "dark"} {
		t.Run(scheme, func(t *testing.T) {
			b := openPage(t, url, chromedp.EmulateViewport(1100, 900), colorScheme(scheme))
			b.shoot(scheme, sections...)
			if got, want := eval[bool](b, `matchMedia("(prefers-color-scheme: dark)").matches`), scheme == "dark"; got != want {
				t.Fatalf("dark %t, expected %t", got, want)
			}
			for _, flaw := range flaws(b) {
				t.Error(flaw)
			}
			for _, pair := range lowContrast(b) {
				t.Error("too little contrast: " + pair)
			}
			t.Logf("first contentful paint after %.0f ms", get(b, chromedp.Evaluate[float64](firstPaint, chromedp.EvalAwaitPromise)))
		})
	}
	t.Run("phone", func(t *testing.T) {
		b := openPage(t, url, chromedp.EmulateViewport(360, 740, chromedp.EmulateScale(2), chromedp.EmulateMobile), colorScheme("light"))
		b.shoot("phone", sections...)
		eval[bool](b, `document.querySelectorAll("details").forEach((d) => { d.open = true; }) ?? true`)
		if got := eval[float64](b, `document.documentElement.scrollWidth`); got != 360 {
			t.Errorf("with all of it open the page is %v px wide on a screen of 360", got)
		}
		if wide, phone := eval[string](b, `getComputedStyle(document.querySelector(".plot.wide")).display`), eval[string](b, `getComputedStyle(document.querySelector(".plot.phone")).display`); wide != "none" || phone != "block" {
			t.Errorf("plots for wide screens are shown as %q, for phones as %q; expected none and block", wide, phone)
		}
	})
	t.Run("print", func(t *testing.T) {
		b := openPage(t, url, chromedp.EmulateViewport(720, 1020), command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"}))
		b.shoot("print")
		pdf := get(b, chromedp.PrintToPDF(chromedp.PDFPrintBackground(), chromedp.PDFPreferCSSPageSize()))
		b.keep("print.pdf", pdf)
		// Paper cannot be unfolded: what each finding rests on is on it, the long list of inputs is not.
		if got := eval[int](b, `[...document.querySelectorAll(".finding details > dl, .job figure, .lock .frames")].filter((e) => !e.checkVisibility()).length`); got != 0 {
			t.Errorf("%d details of findings, plots of jobs and stacks of holders are not printed", got)
		}
		if eval[bool](b, `document.querySelector("#inputs table").checkVisibility()`) || eval[bool](b, `document.querySelector(".numbers").checkVisibility()`) {
			t.Error("inputs and the numbers of plots are printed, which are folded for their length")
		}
		if !bytes.HasPrefix(pdf, []byte("%PDF-")) || bytes.Count(pdf, []byte("%%EOF")) != 1 {
			t.Errorf("expected one PDF, saw %d bytes that begin with %.8q", len(pdf), pdf)
		}
	})
	t.Run("without scripts", func(t *testing.T) {
		b := openPage(t, url, command(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
		shown := get(b, chromedp.Text(chromedp.CSS("main")))
		for _, want := range []string{"telemetryblock", "What happened", "Where the 1,087 requests are", "prometheus.(*Registry).Register", "Ruled out"} {
			if !strings.Contains(shown, want) {
				t.Errorf("without scripts the page does not show %q", want)
			}
		}
		if strings.Contains(shown, "Filter by function") {
			t.Error("without scripts the page shows a filter that does nothing")
		}
	})
}

// firstPaint is when something was first to be seen, which can be after the page was loaded.
const firstPaint = `new Promise((r) => new PerformanceObserver((list) => list.getEntriesByName("first-contentful-paint").forEach((e) => r(e.startTime))).observe({type: "paint", buffered: true}))`

// lowContrast are texts that WCAG's 4.5 to 1 does not allow on their ground.
func lowContrast(b *browser) []string {
	return eval[[]string](b, `(() => {
		const lum = (c) => { const [r, g, b] = c.match(/[\d.]+/g).map(Number).map((v) => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; }); return .2126 * r + .7152 * g + .0722 * b; };
		const ground = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (c !== "rgba(0, 0, 0, 0)") return c; } return "rgb(255, 255, 255)"; };
		const seen = new Set();
		for (const e of document.querySelectorAll("main *")) {
			if (e.closest("svg") || ![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())) continue;
			const f = getComputedStyle(e).color, g = ground(e), [hi, lo] = [lum(f), lum(g)].sort((x, y) => y - x);
			if ((hi + .05) / (lo + .05) < 4.5) seen.add(f + " on " + g + " (" + e.className + ")");
		}
		return [...seen];
	})()`)
}

// flaws are what makes a page hard to use for those who hear it or have no mouse.
func flaws(b *browser) []string {
	return eval[[]string](b, `(() => {
		const out = [], ids = new Set();
		let level = 0;
		for (const h of document.querySelectorAll("h1, h2, h3, h4, h5, h6")) {
			const n = Number(h.tagName[1]);
			if (n > level + 1) out.push("heading " + h.textContent + " of level " + n + " after one of " + level);
			level = n;
		}
		for (const e of document.querySelectorAll("[id]")) ids.has(e.id) ? out.push("id " + e.id + " is there twice") : ids.add(e.id);
		for (const e of document.querySelectorAll("[aria-labelledby], [aria-describedby]"))
			for (const id of (e.getAttribute("aria-labelledby") + " " + (e.getAttribute("aria-describedby") ?? "")).split(" "))
				if (id && id !== "null" && !ids.has(id)) out.push("a name refers to " + id + ", which is not there");
		for (const e of document.querySelectorAll("svg")) if (!e.closest("[aria-hidden=true]")) out.push("a picture without words");
		for (const e of document.querySelectorAll(".plot")) if (e.getAttribute("role") !== "img" || !e.getAttribute("aria-labelledby")) out.push("a plot without a name");
		for (const e of document.querySelectorAll("input")) if (!e.labels.length) out.push("an input without a label");
		for (const e of document.querySelectorAll("a[href^='#']")) if (!document.querySelector(e.hash)) out.push("a link to " + e.hash + ", which is not there");
		for (const e of document.querySelectorAll(".scroll")) if (e.tabIndex !== 0) out.push("a table that cannot be scrolled by keyboard");
		return out;
	})()`)
}

// TestPageReloads: a live page loads itself anew, with scripts and without.
func TestPageReloads(t *testing.T) {
	t.Parallel()
	for _, scripts := range []bool{true, false} {
		t.Run(fmt.Sprintf("scripts %t", scripts), func(t *testing.T) {
			t.Parallel()
			p := livePage(t, &detect.Report{})
			b := openPage(t, p.URL, command(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !scripts}))
			p.loaded(b, 3)
		})
	}
}

// live is a server of one live page.
type live struct {
	*httptest.Server
	loads chan struct{}
	gone  atomic.Bool // it breaks off what it is asked
}

func livePage(t *testing.T, r *detect.Report) *live {
	p := &live{loads: make(chan struct{}, 100)}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if p.gone.Load() {
			panic(http.ErrAbortHandler)
		}
		if err := report.HTML(w, r, report.HTMLOptions{Refresh: time.Second, Seen: time.Now()}); err != nil && req.Method == http.MethodGet {
			t.Error(err)
		}
		if req.Method == http.MethodGet {
			p.loads <- struct{}{}
		}
	}))
	t.Cleanup(p.Close)
	return p
}

// loaded waits until the page was loaded n times more.
func (p *live) loaded(b *browser, n int) {
	b.t.Helper()
	for range n {
		select {
		case <-p.loads:
		case <-b.ctx.Done():
			b.t.Fatal("the page does not load itself anew")
		}
	}
}

// TestPageStaysWhereItIs: of a live page, rows opened by hand are open when it has loaded
// itself anew, and what it showed last stays while nobody answers.
func TestPageStaysWhereItIs(t *testing.T) {
	t.Parallel()
	p := livePage(t, &detect.Report{Findings: []detect.Finding{
		{Detector: "applock", Summary: "requests wait", Library: "example.com/a@v1"},
		{Detector: "lockwait", Summary: "requests wait", Library: "example.com/b@v1"},
		{Detector: "poolwait", Summary: "requests wait", Library: "example.com/c@v1"},
	}})
	b := openPage(t, p.URL)
	p.loaded(b, 1)
	open := func() string {
		return eval[string](b, `[...document.querySelectorAll(".finding details")].map((d) => d.open).join(" ")`)
	}
	if got, want := open(), "true false false"; got != want {
		t.Fatalf("at first findings are open: %s, expected %s", got, want)
	}
	eval[bool](b, `document.querySelectorAll(".finding details").forEach((d, i) => { d.open = i === 2; }) ?? true`)
	const settled = `new Promise((r) => document.readyState === "complete" ? r(true) : addEventListener("load", () => r(true)))`
	p.loaded(b, 2)
	get(b, chromedp.Evaluate[bool](settled, chromedp.EvalAwaitPromise))
	if got, want := open(), "false false true"; got != want {
		t.Errorf("after it was loaded anew findings are open: %s, expected %s", got, want)
	}
	p.gone.Store(true)
	b.expects = "net::ERR_EMPTY_RESPONSE"
	time.Sleep(3 * time.Second) // three turns
	if got := eval[string](b, `document.querySelector(".finding p").textContent`); got != "requests wait" {
		t.Errorf("while nobody answers the page shows %q", got)
	}
	for len(p.loads) > 0 {
		<-p.loads
	}
	p.gone.Store(false)
	p.loaded(b, 1)
}

// TestPageLabels: the letters of a plot stand inside it, and beside each other.
func TestPageLabels(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"incident",
		"fix-canary",  // its axis ends with a label
		"control-cdn", // many events at once
	} {
		url := reportPage(t, "../../demo/scenarios/"+name+"/bundle")
		for _, width := range []int64{360, 1100} {
			b := openPage(t, url, chromedp.EmulateViewport(width, 900), colorScheme("light"))
			for _, flaw := range eval[[]string](b, `(() => {
				const out = [];
				for (const plot of document.querySelectorAll(".plot")) {
					if (!plot.checkVisibility()) continue;
					const box = plot.getBoundingClientRect();
					const texts = [...plot.querySelectorAll("text")].map((e) => [e.textContent, e.getBoundingClientRect()]);
					texts.forEach(([text, r], i) => {
						if (r.left < box.left - 1 || r.right > box.right + 1) out.push(text + " is cut in " + plot.parentElement.id);
						for (const [other, o] of texts.slice(i + 1))
							if (Math.min(r.right, o.right) - Math.max(r.left, o.left) > 1 && Math.min(r.bottom, o.bottom) - Math.max(r.top, o.top) > 4) out.push(text + " and " + other + " overlap in " + plot.parentElement.id);
					});
				}
				return out;
			})()`) {
				t.Errorf("%s at %d px: %s", name, width, flaw)
			}
		}
	}
}

// TestPageMarks holds the marks of a plot to the times of the story: their place
// on the axis, in pixels.
func TestPageMarks(t *testing.T) {
	t.Parallel()
	b := openPage(t, reportPage(t, incident), chromedp.EmulateViewport(1100, 900), colorScheme("light"))
	type story struct{ At, Role string }
	stories := eval[[]story](b, `[...document.querySelectorAll("ol.story > li")].map((li) => ({At: li.querySelector("time").dateTime, Role: li.querySelector(".role").textContent.trim().split(" ").pop()}))`)
	if len(stories) < 10 {
		t.Fatalf("the story has %d lines", len(stories))
	}
	type plot struct {
		ID, Start, End string
		Left, Right    float64
		Marks          map[string][]float64 // upright lines by colour, in px
	}
	plots := eval[[]plot](b, `[...document.querySelectorAll("#time > figure .plot.wide")].slice(1).map((p) => {
		const paths = [...p.querySelectorAll("path")].map((e) => [e.getAttribute("stroke"), e.getBoundingClientRect()]);
		const axis = paths.map(([, r]) => r).filter((r) => r.height < 2 && r.width > 500)[0];
		const marks = {};
		for (const [c, r] of paths) if (c !== "#d5d9df" && r.width < 2 && r.height > 80) (marks[c] ??= []).push(r.left + r.width / 2);
		return {ID: p.parentElement.id, Start: p.dataset.start, End: p.dataset.end, Left: axis.left, Right: axis.right, Marks: marks};
	})`)
	colors := map[string]string{"trigger": "#96690a", "cause": "#b5361c", "symptom": "#1b6ca8"}
	if len(plots) != 4 {
		t.Fatalf("expected 4 plots with lines, saw %d", len(plots))
	}
	when := func(s string) time.Time {
		at, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	for _, p := range plots {
		if p.Left != plots[0].Left || p.Right != plots[0].Right {
			t.Errorf("%s: its time axis is from %v to %v px, of the first plot %v to %v", p.ID, p.Left, p.Right, plots[0].Left, plots[0].Right)
		}
		start, end := when(p.Start), when(p.End)
		want := map[string][]float64{}
		for _, s := range stories {
			share := float64(when(s.At).Sub(start)) / float64(end.Sub(start))
			c := colors[s.Role]
			want[c] = append(want[c], p.Left+share*(p.Right-p.Left))
		}
		for c, at := range want {
			if len(p.Marks[c]) != len(at) {
				t.Errorf("%s: %d marks of colour %s, expected %d", p.ID, len(p.Marks[c]), c, len(at))
				continue
			}
			for i := range at {
				if math.Abs(p.Marks[c][i]-at[i]) > 1 {
					t.Errorf("%s: mark %d of %s at %.1f px, expected %.1f", p.ID, i, c, p.Marks[c][i], at[i])
				}
			}
		}
	}
}

// forest is a dump whose tree has branches that are open at first, and others.
func forest(t *testing.T) string {
	var dump strings.Builder
	id := 0
	for _, s := range []struct {
		n     int
		state string
		calls string // leaf first
	}{
		{60, "sync.Mutex.Lock", "internal/sync.(*Mutex).lockSlow internal/sync.(*Mutex).Lock sync.(*Mutex).Lock github.com/prometheus/client_golang/prometheus.(*Registry).Register example.com/shop.(*api).record example.com/shop.(*api).serve"},
		{30, "sync.Mutex.Lock", "internal/sync.(*Mutex).lockSlow internal/sync.(*Mutex).Lock sync.(*Mutex).Lock example.com/shop.(*cache).get example.com/shop.(*api).list example.com/shop.(*api).serve"},
		{3, "select", "net/http.(*persistConn).roundTrip net/http.(*Client).Do example.com/shop.prices example.com/shop.(*api).ask example.com/shop.(*api).list example.com/shop.(*api).serve"},
		{3, "select", "net/http.(*persistConn).roundTrip net/http.(*Client).Do example.com/shop.stock example.com/shop.(*api).ask example.com/shop.(*api).list example.com/shop.(*api).serve"},
		{4, "chan receive", "example.com/shop.(*api).watch example.com/shop.(*api).stream"},
	} {
		for range s.n {
			id++
			fmt.Fprintf(&dump, "goroutine %d [%s]:\n", id, s.state)
			for _, call := range strings.Fields(s.calls + " net/http.HandlerFunc.ServeHTTP net/http.serverHandler.ServeHTTP net/http.(*conn).serve") {
				fmt.Fprintf(&dump, "%s(0xc000010000)\n\t/src/x.go:10 +0x10\n", call)
			}
			dump.WriteString("created by net/http.(*Server).Serve in goroutine 1\n\t/src/server.go:10 +0x10\n\n")
		}
	}
	path := filepath.Join(t.TempDir(), "forest.txt")
	if err := os.WriteFile(path, []byte(dump.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPageTree(t *testing.T) {
	t.Parallel()
	b := openPage(t, reportPage(t, forest(t)), colorScheme("light"))
	b.shoot("tree", "stacks")
	shown := func() int {
		return eval[int](b, `[...document.querySelectorAll("#tree summary")].filter((e) => e.checkVisibility()).length`)
	}
	all := eval[int](b, `document.querySelectorAll("#tree summary").length`)
	before := shown()
	if before == 0 || before == all {
		t.Fatalf("%d of %d rows of the tree are open at first, expected some", before, all)
	}
	b.run(chromedp.Click(chromedp.CSS("#unfold")))
	if got := shown(); got != all {
		t.Errorf("%d of %d rows after all were opened", got, all)
	}
	// By keyboard: the row before a click on it, and after.
	b.run(chromedp.Focus(chromedp.CSS("#tree summary")), chromedp.KeyEvent(" "))
	if got := eval[bool](b, `document.querySelector("#tree details").open`); got {
		t.Error("the space bar does not close a row that has the focus")
	}
	b.run(chromedp.SendKeys(chromedp.CSS("#filter"), "registry).REGISTER"))
	if got := eval[string](b, `document.getElementById("matches").textContent`); got != "1 row has it" {
		t.Errorf("the filter says %q", got)
	}
	if got := eval[bool](b, `[...document.querySelectorAll("#tree summary")].some((e) => e.checkVisibility() && e.textContent.includes("Register"))`); !got {
		t.Error("what the filter found is not shown")
	}
	if got := eval[bool](b, `[...document.querySelectorAll("#tree summary")].some((e) => e.checkVisibility() && e.textContent.includes("shop.(*cache).get"))`); got {
		t.Error("the filter shows a row that has not what was asked for, nor calls it")
	}
	eval[bool](b, `document.getElementById("filter").select() ?? document.execCommand("delete")`) // as by hand
	if got := shown(); got != before {
		t.Errorf("%d rows after the filter was emptied, expected the %d at first", got, before)
	}
}
