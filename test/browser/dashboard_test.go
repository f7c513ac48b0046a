//go:build interop && linux

package browser

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers/gorillamux"
)

// ensemble is `conclave dev` with its dashboard.
type ensemble struct {
	t          *testing.T
	url, store string
}

// develop starts three servers and the dashboard, and ends them with the test.
func develop(t *testing.T) *ensemble {
	t.Helper()
	e := &ensemble{t: t}
	dev := exec.Command(laboratory.conclave, "dev", "--http", "127.0.0.1:0")
	dev.Stderr = os.Stderr
	out, err := dev.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := dev.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = dev.Process.Signal(os.Interrupt)
		_ = dev.Wait()
	})
	lines := bufio.NewScanner(out)
	for e.url == "" && lines.Scan() {
		if _, store, ok := strings.Cut(lines.Text(), "CONCLAVE_STORE="); ok {
			e.store = store
		}
		if _, url, ok := strings.Cut(lines.Text(), "The dashboard is at "); ok {
			e.url = url
		}
	}
	if e.url == "" {
		t.Fatal("conclave dev tells no dashboard")
	}
	go func() {
		for lines.Scan() {
		}
	}()
	return e
}

// send sends a request to the API, and returns its answer.
func (e *ensemble) send(method, path, body string) (*http.Response, string) {
	e.t.Helper()
	r, err := http.NewRequestWithContext(e.t.Context(), method, e.url+"api/v1/"+path, strings.NewReader(body))
	if err != nil {
		e.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		e.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		e.t.Fatal(err)
	}
	return answer, string(text)
}

// fetch returns an answer of the API.
func (e *ensemble) fetch(path string) string {
	e.t.Helper()
	_, text := e.send("GET", path, "")
	return text
}

// port returns the port of the first server.
func (e *ensemble) port() string {
	first, _, _ := strings.Cut(e.store, ",")
	return first[strings.LastIndexByte(first, ':')+1:]
}

// do runs a command on the ensemble.
func (e *ensemble) do(args ...string) string {
	e.t.Helper()
	text, err := e.command(args...).CombinedOutput()
	if err != nil {
		e.t.Fatalf("conclave %s: %v\n%s", strings.Join(args, " "), err, text)
	}
	return strings.TrimSpace(string(text))
}

func (e *ensemble) command(args ...string) *exec.Cmd {
	c := exec.CommandContext(e.t.Context(), laboratory.conclave, args...)
	c.Env = append(os.Environ(), "CONCLAVE_STORE="+e.store)
	return c
}

// candidate starts a candidate that runs until the test ends.
func (e *ensemble) candidate(election, id string) {
	e.t.Helper()
	c := e.command("run", election, "--id", id, "--lease", "3s", "--forever", "--quiet", "--", "sleep", "1000")
	var said bytes.Buffer
	c.Stdout, c.Stderr = &said, &said
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	if err := c.Start(); err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() {
		_ = c.Process.Signal(os.Interrupt)
		_ = c.Wait()
	})
}

// shown opens a part of the dashboard.
func (e *ensemble) shown(hash, ready string) *page {
	e.t.Helper()
	return openAt(e.t, e.url+hash, ready)
}

// said waits until an element has a text.
func (p *page) said(selector, text string) {
	p.t.Helper()
	p.await(fmt.Sprintf(`[...document.querySelectorAll(%q)].some((e) => e.textContent.includes(%q))`, selector, text))
}

// press clicks the button with a text within an element.
func (p *page) press(within, text string) {
	p.t.Helper()
	p.await(fmt.Sprintf(`[...document.querySelectorAll(%q)].some((b) => b.textContent === %q)`, within+" button", text))
	p.run(chromedp.Evaluate(fmt.Sprintf(`[...document.querySelectorAll(%q)].find((b) => b.textContent === %q).click(); null`, within+" button", text), nil))
}

// TestNewLeaderIsSeen: the leader is killed, and the page shows the next one by itself.
func TestNewLeaderIsSeen(t *testing.T) {
	e := develop(t)
	p := e.shown("", ".server.leads")
	leads := `document.querySelector('[data-role="leader"] h2 span').textContent`
	before := eval[string](p, leads)
	number, _, _ := strings.Cut(before, " ")
	e.do("dev", "kill", number, "--port", e.port())
	p.await(fmt.Sprintf(`document.querySelector('[data-role="leader"]') !== null && %s !== %q`, leads, before))
	p.said(".server.down .role", "no answer")
	p.said("#changes li", "is leader (was follower)")
	// The votes by which it became the leader.
	p.await(`[...document.querySelectorAll("#votes summary")].some((s) => s.textContent.includes("link lost: the leader is server"))`)
	p.await(`[...document.querySelectorAll("#votes details")].every((d) => d.querySelectorAll("tbody tr").length >= 1)`)
	e.do("dev", "start", number, "--port", e.port())
	p.await(`document.querySelectorAll(".server.down").length === 0 && document.querySelectorAll('[data-role="follower"]').length === 2`)
}

// TestLeadershipIsTransferred by the page's buttons, which ask first, and the history shows it.
func TestLeadershipIsTransferred(t *testing.T) {
	e := develop(t)
	e.candidate("billing/nightly", "alpha")
	p := e.shown("#elections/billing/nightly", "main .panel")
	p.said("td", "alpha")
	e.candidate("billing/nightly", "beta")
	p.said("td", "beta")
	p.press("td", "Transfer")
	p.await(`document.querySelector("#ask").open && document.querySelector("#ask-to").value === "beta"`)
	p.press("#ask", "Cancel")
	p.await(`!document.querySelector("#ask").open`)
	if leader := e.do("leader", "billing/nightly"); !strings.Contains(leader, "alpha") {
		t.Errorf("what was cancelled has happened: %s", leader)
	}
	p.press("td", "Transfer")
	p.press("#ask", "Transfer")
	p.await(`!document.querySelector("#ask").open && document.querySelector("tr.leads td:nth-child(2)").textContent === "beta"`)
	p.said("td", "transferred") // on a busy machine a lease may also expire
	p.await(`document.querySelectorAll("svg.times rect.led").length >= 2 && document.querySelectorAll("svg.times rect.over").length === 0`)
}

// TestTreeIsChanged: a znode is created, changed and deleted, and the log shows it live.
func TestTreeIsChanged(t *testing.T) {
	e := develop(t)
	log := e.shown("#log", "table")
	p := e.shown("#tree", ".names li")
	p.press("main", "New child")
	p.run(chromedp.SetValue("#ask-name", "app"), chromedp.SetValue("#ask-data", `{"a":1}`))
	p.press("#ask", "New child")
	p.said(".names a", "app")
	log.said(".logrow td", "/app")
	p.run(chromedp.Evaluate(`location.hash = "#tree/app"; null`, nil))
	p.said("pre", `"a": 1`)
	p.press("main", "Edit")
	p.run(chromedp.SetValue("#ask-data", "<b>not bold</b>"))
	e.do("set", "/app", "meanwhile")
	p.press("#ask", "Edit")
	p.expect("409 (Conflict)")
	p.said("#ask-problem", "version") // another client was faster, and nothing is lost
	p.press("#ask", "Cancel")
	if data := e.do("get", "/app"); data != "meanwhile" {
		t.Errorf("data is %q", data)
	}
	p.run(chromedp.Evaluate(`location.hash = "#tree/"; location.hash = "#tree/app"; null`, nil))
	p.said("pre", "meanwhile")
	p.press("main", "Edit")
	p.run(chromedp.SetValue("#ask-data", "<b>not bold</b>"))
	p.press("#ask", "Edit")
	p.said("pre", "<b>not bold</b>")
	p.press("main", "Delete")
	p.press("#ask", "Delete")
	p.await(`location.hash === "#tree/" && ![...document.querySelectorAll(".names a")].some((a) => a.textContent === "app")`)
	log.said(".logrow td", "delete")
	log.run(chromedp.SetValue(`input[aria-label="Path"]`, "/app"))
	log.press("form", "Search the log")
	log.await(`[...document.querySelectorAll(".logrow td:nth-child(3)")].map((e) => e.textContent).reverse().join(" ") === "create2 setData setData delete"`)
}

// TestLargeDirectoryIsBrowsedInPages: the first page of CHILDREN znodes appears at once,
// and the page keeps only a few.
func TestLargeDirectoryIsBrowsedInPages(t *testing.T) {
	e := develop(t)
	children, err := strconv.Atoi(os.Getenv("CHILDREN"))
	if err != nil {
		children = 20_000
	}
	e.do("bench", "get", "--keep", "--znodes", strconv.Itoa(children), "--duration", "100ms", "--prefix", "/many")
	p := e.shown("#tree/", ".names li")
	p.run(chromedp.Evaluate(`location.hash = "#tree/many"; null`, nil))
	p.await(`document.querySelectorAll(".names li").length > 0`)
	path := "/many"
	if strings.Contains(e.do("stat", path), "numChildren") && eval[int](p, `document.querySelectorAll(".names li").length`) < 200 {
		path += "/" + eval[string](p, `document.querySelector(".names a").textContent`)
	}
	first := eval[float64](p, fmt.Sprintf(`(async () => {
		const begin = performance.now();
		const answer = await fetch("api/v1/children?limit=200&path=%s");
		await answer.json();
		return performance.now() - begin;
	})()`, path))
	t.Logf("%s: the first 200 of %d within %.0f ms", path, children, first)
	p.run(chromedp.Evaluate(fmt.Sprintf(`location.hash = "#tree%s"; null`, path), nil))
	p.await(`document.querySelectorAll(".names li").length === 200`)
	p.press("main", "More")
	p.await(`document.querySelectorAll(".names li").length === 400`)
	if names := eval[int](p, `new Set([...document.querySelectorAll(".names li")].map((e) => e.dataset.name)).size`); names != 400 {
		t.Errorf("two pages have %d names", names)
	}
}

// TestDashboardFitsEveryScreen, in both themes and languages. With SHOTS it stores
// screenshots.
func TestDashboardFitsEveryScreen(t *testing.T) {
	e := develop(t)
	for _, id := range []string{"alpha", "beta", "gamma"} {
		e.candidate("billing/nightly", id)
	}
	e.candidate("report/weekly", "alpha")
	e.do("create", "-p", "/app/config", `{"region":"eu","replicas":3,"limits":{"requests":1000,"bytes":1048576}}`)
	for i := range 30 {
		e.do("create", fmt.Sprintf("/app/item-%02d", i), strings.Repeat("x", i))
	}
	parts := map[string]string{"ensemble": ".server.leads", "elections/billing/nightly": "svg.times", "tree/app/config": "pre", "sessions": "td", "log": ".logrow"}
	for hash, ready := range parts {
		p := e.shown("#"+hash, ready)
		for _, language := range []string{"en", "zh"} {
			theme := map[string]string{"en": "light", "zh": "dark"}[language]
			p.look(theme, language)
			p.run(chromedp.WaitReady(ready))
			p.axe(hash + ", " + theme + ", " + language)
			for _, width := range []int64{360, 768, 1280, 2560} {
				p.run(emulation.SetDeviceMetricsOverride(width, map[bool]int64{true: 780, false: width * 5 / 8}[width < 700], 1, width < 700))
				if wide := eval[int64](p, "document.documentElement.scrollWidth"); wide > width {
					t.Errorf("%s at %d: the page is %d wide", hash, width, wide)
				}
				if dir := os.Getenv("SHOTS"); dir != "" {
					var shot []byte
					p.run(chromedp.FullScreenshot(&shot, 100))
					name := fmt.Sprintf("dash-%s-%d-%s-%s.png", strings.ReplaceAll(hash, "/", "-"), width, theme, language)
					if err := os.WriteFile(filepath.Join(dir, name), shot, 0o644); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
}

// TestAPIIsAsItIsDescribed: the description is valid, and every answer matches it,
// including answers to wrong requests.
func TestAPIIsAsItIsDescribed(t *testing.T) {
	e := develop(t)
	e.candidate("billing/nightly", "alpha")
	p := e.shown("#elections", "td") // the election exists, and will soon have a leader
	p.await(`document.querySelector("main").textContent.includes("alpha")`)
	e.do("create", "/app", "x")
	described, err := openapi3.NewLoader().LoadFromData([]byte(e.fetch("openapi.json")))
	if err != nil {
		t.Fatal(err)
	}
	if err := described.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	described.Servers = openapi3.Servers{{URL: e.url + "api/v1"}}
	router, err := gorillamux.NewRouter(described)
	if err != nil {
		t.Fatal(err)
	}
	asked := map[string]bool{}
	for _, one := range []struct {
		method, path, body string
		status             int
	}{
		{"GET", "about", "", 200},
		{"GET", "openapi.json", "", 200},
		{"GET", "look", "", 200},
		{"GET", "elections", "", 200},
		{"GET", "elections/history?election=billing/nightly", "", 200},
		{"GET", "elections/history?election=none", "", 404},
		{"GET", "children", "", 200},
		{"GET", "children?path=/app&limit=1", "", 200},
		{"GET", "children?path=/none", "", 404},
		{"GET", "children?path=none", "", 400},
		{"GET", "children?path=/&cursor=bm90aGluZw", "", 400},
		{"GET", "znode?path=/app", "", 200},
		{"GET", "znode?path=/zookeeper/config", "", 200},
		{"GET", "sessions", "", 200},
		{"GET", "votes", "", 200},
		{"GET", "watches?path=/conclave", "", 200},
		{"GET", "log?path=/app&op=create2", "", 200},
		{"GET", "log?session=x", "", 400},
		{"POST", "znode", `{"do":"create","path":"/app/n-","mode":"sequential","data":"1"}`, 200},
		{"POST", "znode", `{"do":"create","path":"/app"}`, 409},
		{"POST", "znode", `{"do":"set","path":"/app","dataBase64":"/w==","version":0}`, 200},
		{"POST", "znode", `{"do":"set","path":"/app","data":"1","version":0}`, 409},
		{"POST", "znode", `{"do":"delete","path":"/app"}`, 409},
		{"POST", "elections/ask", `{"election":"billing/nightly"}`, 200},
		{"POST", "elections/ask", `{"election":"none"}`, 404},
		{"POST", "elections/ask", `{"election":"billing/nightly","to":"nobody"}`, 404},
	} {
		answer, text := e.send(one.method, one.path, one.body)
		if answer.StatusCode != one.status {
			t.Errorf("%s %s: status %s: %s", one.method, one.path, answer.Status, text)
			continue
		}
		route, parameters, err := router.FindRoute(answer.Request)
		if err != nil {
			t.Errorf("%s %s: %v", one.method, one.path, err)
			continue
		}
		asked[one.method+" "+route.Path] = true
		in := &openapi3filter.RequestValidationInput{Request: answer.Request, PathParams: parameters, Route: route}
		out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: answer.StatusCode, Header: answer.Header}
		out.SetBodyBytes([]byte(text))
		if err := openapi3filter.ValidateResponse(t.Context(), out); err != nil {
			t.Errorf("%s %s: %v", one.method, one.path, err)
		}
	}
	for path, item := range described.Paths.Map() {
		for method := range item.Operations() {
			if !asked[method+" "+path] && path != "/events" {
				t.Errorf("%s %s was not asked", method, path)
			}
		}
	}
}
