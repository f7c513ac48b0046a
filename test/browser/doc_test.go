//go:build interop && linux

// Package browser drives the pages of the laboratory and of the dashboard in Chromium.
//
// It is a separate module, so no other build needs the driver. `make browser` installs what
// it needs, and runs it.
package browser

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// laboratory is `conclave lab`, started once for all tests.
var laboratory struct {
	conclave, url string
}

func TestMain(m *testing.M) {
	code, err := withLaboratory(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// withLaboratory builds conclave, serves the page while run runs, and ends it.
func withLaboratory(run func() int) (int, error) {
	dir, err := os.MkdirTemp("", "browser-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	laboratory.conclave = filepath.Join(dir, "conclave")
	build := exec.Command("go", "build", "-trimpath=false", "-o", laboratory.conclave, "./cmd/conclave") // it builds the machines from these sources
	build.Dir = "../.."
	build.Env = append(os.Environ(), "GOWORK=")
	if text, err := build.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("build: %w\n%s", err, text)
	}
	serve := exec.Command(laboratory.conclave, "lab")
	serve.Env = append(os.Environ(), "GOWORK=")
	serve.Stderr = os.Stderr
	out, err := serve.StdoutPipe()
	if err != nil {
		return 1, err
	}
	if err := serve.Start(); err != nil {
		return 1, err
	}
	defer func() {
		_ = serve.Process.Kill()
		_ = serve.Wait()
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return 1, fmt.Errorf("conclave lab says nothing: %w", err)
	}
	laboratory.url = strings.TrimSpace(strings.TrimPrefix(line, "the laboratory is at "))
	return run(), nil
}

// page is a tab of a browser.
type page struct {
	context.Context
	t      *testing.T
	mu     sync.Mutex
	faults []string // what the page has written to its console
	wanted []string // parts of messages that it may write there
}

// open opens a page of the laboratory. If the page writes an error to its console, the test
// fails.
func open(t *testing.T, hash string) *page {
	t.Helper()
	return openAt(t, laboratory.url+hash, ".node")
}

// openAt opens a page, and waits until it has an element.
func openAt(t *testing.T, url, ready string) *page {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("chromium"), chromedp.NoSandbox)
	allocator, stop := chromedp.NewExecAllocator(t.Context(), options...)
	ctx, cancel := chromedp.NewContext(allocator, chromedp.WithErrorf(func(format string, args ...any) {
		if text := fmt.Sprintf(format, args...); !strings.HasPrefix(text, "unhandled node event") { // the driver is older than the browser
			t.Log(text)
		}
	}))
	ctx, end := context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(func() { end(); cancel(); stop() })
	p := &page{Context: ctx, t: t}
	chromedp.ListenTarget(ctx, p.listen)
	p.run(log.Enable(), emulation.SetDeviceMetricsOverride(1440, 900, 1, false), chromedp.Navigate(url), chromedp.WaitReady(ready))
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, fault := range p.faults {
			if slices.ContainsFunc(p.wanted, func(w string) bool { return strings.Contains(fault, w) }) {
				continue
			}
			t.Errorf("console: %s", fault)
		}
	})
	return p
}

// expect permits the page to write a message to its console.
func (p *page) expect(part string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanted = append(p.wanted, part)
}

func (p *page) listen(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		p.faults = append(p.faults, e.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning {
			p.faults = append(p.faults, fmt.Sprint(e.Args))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.LevelError || e.Entry.Level == log.LevelWarning {
			p.faults = append(p.faults, e.Entry.Text+" "+e.Entry.URL)
		}
	}
}

func (p *page) run(actions ...chromedp.Action) {
	p.t.Helper()
	if err := chromedp.Run(p, actions...); err != nil {
		p.t.Fatal(err)
	}
}

// eval evaluates an expression in the page.
func eval[T any](p *page, expression string) T {
	p.t.Helper()
	var value T
	p.run(chromedp.Evaluate(expression, &value, func(e *runtime.EvaluateParams) *runtime.EvaluateParams { return e.WithAwaitPromise(true) }))
	return value
}

// await waits until an expression is true in the page.
func (p *page) await(expression string) {
	p.t.Helper()
	if err := chromedp.Run(p, chromedp.Poll(expression, nil, chromedp.WithPollingTimeout(time.Minute), chromedp.WithPollingInterval(20*time.Millisecond))); err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
}

// leaders returns the servers that consider themselves leader in the page.
func (p *page) leaders() string {
	p.t.Helper()
	return eval[string](p, `[...document.querySelectorAll(".node.leads")].map((n) => n.dataset.key).join(" ")`)
}

// fast lets time pass four times as fast as real time, without stops.
func (p *page) fast() {
	p.t.Helper()
	p.run(chromedp.Evaluate(`document.querySelector("#speed").value = 2; document.querySelector("#stops").checked = false; null`, nil))
}

// replay returns how a run ends on the command line.
func replay(t *testing.T, url string, untilS string) any {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), laboratory.conclave, "lab", "--replay", url, "--until", untilS, "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var frame any
	if err := json.Unmarshal(out, &frame); err != nil {
		t.Fatal(err)
	}
	return frame
}
