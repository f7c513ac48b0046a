//go:build interop && linux

package browser

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	cdp "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// TestNewestSearchOfTheLogIsShown, whichever search is answered last, together with
// transactions committed meanwhile.
func TestNewestSearchOfTheLogIsShown(t *testing.T) {
	e := develop(t)
	e.do("create", "/slow", "x")
	e.do("create", "/fast", "x")
	p := e.shown("#log", ".logrow")
	p.run(chromedp.Evaluate(`{
		const real = window.fetch;
		window.held = {}; // answers that the page has not read yet
		window.read = {};
		window.fetch = async (url, options) => {
			const answer = await real(url, options);
			const value = await answer.json();
			const path = new URL(url, location.href).searchParams.get("path");
			await new Promise((resolve) => { held[path] = resolve; });
			read[path] = true;
			return { ok: true, json: async () => value };
		};
		window.ask = (path) => {
			document.querySelector('input[aria-label="Path"]').value = path;
			document.querySelector("form.path button").click();
		};
		window.rows = () => [...document.querySelectorAll(".logrow a")].map((a) => a.textContent).filter((text) => text.startsWith("/")).join(" ");
		null }`, nil))
	answered := func(path string) {
		t.Helper()
		p.await(fmt.Sprintf(`held[%q] !== undefined`, path))
	}
	release := func(path string) { p.run(chromedp.Evaluate(fmt.Sprintf(`held[%q](); null`, path), nil)) }
	ask := func(path string) { p.run(chromedp.Evaluate(fmt.Sprintf(`ask(%q); null`, path), nil)) }
	ask("/slow")
	answered("/slow")
	ask("/fast")
	answered("/fast")
	release("/fast")
	p.await(`rows() === "/fast"`)
	release("/slow")
	p.await(`read["/slow"]`)
	if rows := eval[string](p, `new Promise((resolve) => setTimeout(() => resolve(rows())))`); rows != "/fast" {
		t.Errorf("an older answer is shown: %q", rows)
	}
	p.run(chromedp.Evaluate(`delete held["/slow"]; null`, nil))
	ask("/slow")
	answered("/slow")
	e.do("set", "/slow", "y")
	p.await(`rows().includes("/slow")`) // it is shown live, before the earlier answer is read
	release("/slow")
	p.await(`rows() === "/slow /slow"`)
}

// TestEnterInAFieldDoesWhatIsAsked: the key used to be taken for the button that cancels.
func TestEnterInAFieldDoesWhatIsAsked(t *testing.T) {
	e := develop(t)
	p := e.shown("#tree/", ".names li")
	p.press("main", "New child")
	p.run(chromedp.SendKeys("#ask-name", "typed\r"))
	p.await(`!document.querySelector("#ask").open`)
	p.said(".names a", "typed")
	if data := e.do("get", "/typed"); data != "" {
		t.Errorf("data is %q", data)
	}
	p.press("main", "New child")
	p.run(chromedp.SendKeys("#ask-name", "typed\r"))
	p.expect("409 (Conflict)")
	p.said("#ask-problem", "exists")
	p.press("#ask", "Cancel")
	p.await(`!document.querySelector("#ask").open`)
}

// TestPathsAreTakenAsTheyAre: without the leading slash, and with a name that looks like a
// query.
func TestPathsAreTakenAsTheyAre(t *testing.T) {
	e := develop(t)
	e.do("create", "/app", "x")
	e.do("create", "/?session=0x1", "x")
	p := e.shown("#tree/", ".names li")
	p.run(chromedp.SetValue("form.path input", "app"), chromedp.Click("form.path button"))
	p.await(`location.hash === "#tree/app" && document.querySelector('section[aria-label="/app"] pre') !== null`)
	p.run(chromedp.Evaluate(`location.hash = "#tree/%3Fsession%3D0x1"; null`, nil))
	p.await(`document.querySelector('section[aria-label="/?session=0x1"] a') !== null`)
	p.run(chromedp.Click(`section[aria-label="/?session=0x1"] a`))
	p.await(`document.querySelector('input[aria-label="Path"]')?.value === "/?session=0x1" && document.querySelectorAll(".logrow").length === 1`)
}

// between is a proxy in front of a dashboard, like one with a login.
type between struct {
	*httptest.Server
	answer atomic.Pointer[http.HandlerFunc] // nil: the dashboard answers
}

func (e *ensemble) between() *between {
	to, err := url.Parse(e.url)
	if err != nil {
		e.t.Fatal(err)
	}
	pass := httputil.NewSingleHostReverseProxy(to)
	pass.FlushInterval = -1
	b := &between{}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answer := b.answer.Load(); answer != nil {
			(*answer)(w, r)
			return
		}
		pass.ServeHTTP(w, r)
	}))
	e.t.Cleanup(b.Close)
	return b
}

// TestPageComesBackWithItsServer: when a proxy had answered in place of the server, the
// page's events used to end for ever.
func TestPageComesBackWithItsServer(t *testing.T) {
	e := develop(t)
	b := e.between()
	e.do("create", "/before", "x")
	p := openAt(t, b.URL+"/#log", ".logrow")
	for _, part := range []string{"EventSource's response", "502", "net::ERR"} {
		p.expect(part)
	}
	p.said("#state", "live")
	down := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no server", http.StatusBadGateway) })
	login := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<form>password</form>")
	})
	for _, answer := range []*http.HandlerFunc{&down, &login} {
		b.answer.Store(answer)
		b.CloseClientConnections()
		p.said("#state", "no connection to the dashboard")
		p.run(chromedp.Evaluate(`document.querySelector("form.path button").click(); null`, nil))
		p.said(".error", "log in if there is a login")
		e.do("create", "-S", "/meanwhile-", "x")
		b.answer.Store(nil)
		p.said("#state", "live")
		p.said(".logrow a", "/meanwhile-") // it is not missing
	}
}

// TestDashboardNeedsNoStorage: in a browser that stores nothing for pages, the page used to
// stay empty.
func TestDashboardNeedsNoStorage(t *testing.T) {
	e := develop(t)
	p := openAt(t, "about:blank", "body")
	p.run(chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := cdp.AddScriptToEvaluateOnNewDocument(`Object.defineProperty(window, "localStorage", { get() { throw new DOMException("denied", "SecurityError"); } })`).Do(ctx)
		return err
	}), chromedp.Navigate(e.url), chromedp.WaitReady(".server.leads"), chromedp.Click("#theme"), chromedp.Click("#language"))
	p.await(`document.documentElement.lang === "zh-CN"`)
}

// TestKeysStayWhereTheyAre: every second a link used to lose the focus, and each election
// closed what was being read.
func TestKeysStayWhereTheyAre(t *testing.T) {
	e := develop(t)
	load := e.command("bench", "get", "--duration", "1m", "--connections", "1", "--in-flight", "1")
	if err := load.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = load.Process.Kill()
		_ = load.Wait()
	})
	p := e.shown("", "#votes summary")
	p.await(`document.querySelector('main a[href="#tree/conclave-bench"]') !== null`)
	p.run(chromedp.Evaluate(`{
		const link = document.querySelector('main a[href="#tree/conclave-bench"]');
		link.dataset.old = "1";
		link.focus();
		const leader = document.querySelector('[data-role="leader"] h2').textContent.trim()[0];
		const votes = [...document.querySelectorAll("#votes details")].find((d) => !d.textContent.includes("Server " + leader + ":"));
		votes.dataset.old = "1";
		votes.open = true;
		null }`, nil))
	p.await(`document.querySelector('main a[href="#tree/conclave-bench"]')?.dataset.old === undefined`)
	at := `document.activeElement.getAttribute("href") ?? document.activeElement.tagName`
	if at := eval[string](p, at); at != "#tree/conclave-bench" {
		t.Errorf("the focus is at %s", at)
	}
	e.do("dev", "kill", "leader", "--port", e.port())
	p.await(`document.querySelector("#votes [data-old]") === null`)
	if open := eval[int](p, `document.querySelectorAll("#votes details[open]").length`); open != 1 {
		t.Errorf("%d elections are open", open)
	}
	p.run(chromedp.Focus(`#tabs a[href="#tree"]`), chromedp.KeyEvent("\r"))
	p.await(`document.querySelector(".names li") !== null`)
	if at := eval[string](p, at); at != "#tree" {
		t.Errorf("the focus is at %s", at)
	}
}

// TestKeysAskTheLeaderThatWasMeant: the buttons of two elections have the same names, and
// the list changes under them.
func TestKeysAskTheLeaderThatWasMeant(t *testing.T) {
	e := develop(t)
	e.candidate("billing/nightly", "alpha")
	e.candidate("report/weekly", "beta")
	p := e.shown("#elections", "main .panel")
	p.said("td", "alpha")
	p.said("td", "beta")
	p.await(`document.querySelectorAll("td button").length === 2`)
	p.run(chromedp.Evaluate(`document.querySelector("td button").focus(); null`, nil))
	e.candidate("app", "gamma") // sorted before them
	p.said("td", "gamma")
	p.run(chromedp.KeyEvent("\r"))
	p.await(`document.querySelector("#ask").open`)
	if asked := eval[string](p, `document.querySelector("#ask-text").textContent`); !strings.HasPrefix(asked, "billing/nightly: alpha") {
		t.Errorf("asked for %q", asked)
	}
}

// TestEditKeepsTheEndsOfLines: a text field used to turn \r\n into \n, even in lines that
// were not changed.
func TestEditKeepsTheEndsOfLines(t *testing.T) {
	e := develop(t)
	e.do("create", "/windows", "one\r\ntwo\r\n")
	e.do("create", "/mixed", "one\r\ntwo\nthree\r")
	p := e.shown("#tree/windows", "pre")
	p.press("main", "Edit")
	p.run(chromedp.SendKeys("#ask-data", "three"))
	p.press("#ask", "Edit")
	p.said("pre", "three")
	if _, text := e.send("GET", "znode?path=/windows", ""); !strings.Contains(text, `one\r\ntwo\r\n`) {
		t.Errorf("data is %s", text)
	}
	p.run(chromedp.Evaluate(`location.hash = "#tree/mixed"; null`, nil))
	p.await(`document.querySelector('section[aria-label="/mixed"] button') !== null`)
	if edit := eval[bool](p, `[...document.querySelectorAll("main button")].some((b) => b.textContent === "Edit")`); edit {
		t.Error("what would be changed can be edited")
	}
}
