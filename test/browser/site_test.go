//go:build interop && linux

package browser

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// documentation starts `conclave docs`, and returns the address of its version.
func documentation(t *testing.T) string {
	t.Helper()
	docs := exec.Command(laboratory.conclave, "docs")
	docs.Env = append(os.Environ(), "GOWORK=")
	docs.Stderr = os.Stderr
	out, err := docs.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := docs.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = docs.Process.Kill()
		_ = docs.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal("conclave docs says nothing: ", err)
	}
	return strings.TrimSpace(strings.TrimPrefix(line, "the documentation is at ")) + "dev/"
}

// TestDocumentationIsSearched with the keyboard alone, and leads to the matching section of
// a page.
func TestDocumentationIsSearched(t *testing.T) {
	p := openAt(t, documentation(t)+"index.html", "#query")
	p.run(chromedp.KeyEvent("/"))
	p.await(`document.activeElement.id === "query"`)
	empty := chromedp.Evaluate(`document.querySelector("#query").value = ""; null`, nil) // the key that the driver presses is typed, too
	p.run(empty)
	p.run(chromedp.KeyEvent("late write"))
	p.await(`document.querySelectorAll("#results a").length > 0`)
	p.run(chromedp.KeyEvent(kb.ArrowDown))
	p.await(`document.activeElement.closest("#results") !== null`)
	if first := eval[string](p, `document.activeElement.textContent`); !strings.Contains(first, "The late write") {
		t.Errorf("the first result is %q", first)
	}
	p.run(chromedp.KeyEvent(kb.Enter), chromedp.WaitReady("#the-late-write"))
	if at := eval[string](p, "location.pathname + location.hash"); at != "/dev/docs/concepts.html#the-late-write" {
		t.Errorf("it leads to %s", at)
	}
	p.await(`document.readyState === "complete"`) // its scripts have run, so keys work
	p.run(chromedp.KeyEvent("/"))
	p.await(`document.activeElement.id === "query"`)
	p.run(empty, chromedp.KeyEvent("zzzz-nothing"))
	p.said("#results li", "Nothing is found.")
	p.run(chromedp.KeyEvent(kb.Escape))
	p.await(`document.querySelector("#results").hidden`)
}

// TestPagesShowRunsOfTheLaboratory, which run there.
func TestPagesShowRunsOfTheLaboratory(t *testing.T) {
	p := openAt(t, documentation(t)+"docs/concepts.html", ".lab iframe")
	p.run(chromedp.Evaluate(`document.querySelector('iframe[src$="scenario=majority"]').scrollIntoView(); null`, nil))
	p.await(`document.querySelector('iframe[src$="scenario=majority"]').contentDocument?.querySelectorAll(".node").length === 5`)
}

// TestDocumentationFitsEveryScreen, and axe finds no problem. With SHOTS it stores
// screenshots.
func TestDocumentationFitsEveryScreen(t *testing.T) {
	at := documentation(t)
	for _, name := range []string{"index.html", "docs/concepts.html", "docs/zh-CN/concepts.html", "docs/configuration.html", "docs/runbooks.html"} {
		p := openAt(t, at+name, "main h1")
		for _, theme := range []string{"light", "dark"} {
			p.run(chromedp.Evaluate(fmt.Sprintf(`if (document.documentElement.dataset.theme !== %q) document.querySelector("#theme").click(); null`, theme), nil))
			p.run(chromedp.Evaluate(`for (const frame of document.querySelectorAll("iframe")) frame.remove(); null`, nil)) // the laboratory has its own test
			p.axe(name + ", " + theme)
			for _, width := range []int64{360, 1280, 2560} {
				p.run(emulation.SetDeviceMetricsOverride(width, 900, 1, width < 700))
				if wide := eval[int64](p, "document.documentElement.scrollWidth"); wide > width {
					t.Errorf("%s at %d: the page is %d wide", name, width, wide)
				}
				if dir := os.Getenv("SHOTS"); dir != "" {
					var shot []byte
					p.run(chromedp.CaptureScreenshot(&shot))
					file := fmt.Sprintf("site-%s-%d-%s.png", strings.ReplaceAll(name, "/", "-"), width, theme)
					if err := os.WriteFile(filepath.Join(dir, file), shot, 0o644); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
}
