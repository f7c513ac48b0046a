//go:build interop && linux

package browser

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// TestLeaderIsKilledAndAnotherLeads: with the mouse, as a learner would.
func TestLeaderIsKilledAndAnotherLeads(t *testing.T) {
	p := open(t, "#alg=raft&servers=5&seed=4")
	p.fast()
	p.run(chromedp.Click("#play"))
	p.await(`document.querySelectorAll(".node.leads").length === 1`)
	first := p.leaders()
	p.run(chromedp.Click(fmt.Sprintf(`.node[data-key="%s"]`, first)), chromedp.Click(`//div[@id="actions"]/button[text()="Kill"]`, chromedp.BySearch))
	p.await(fmt.Sprintf(`document.querySelector('.node.down[data-key="%s"]') !== null`, first))
	p.run(chromedp.Click("#play"))
	p.await(`document.querySelectorAll(".node.leads").length === 1`)
	if second := p.leaders(); second == first {
		t.Errorf("%s leads though it was killed", first)
	}
	if hash := eval[string](p, "location.hash"); !strings.Contains(hash, ":kill:"+first) {
		t.Errorf("the URL does not have the action: %s", hash)
	}
}

// TestURLIsTheSameRunEverywhere: in two tabs, and on the command line.
func TestURLIsTheSameRunEverywhere(t *testing.T) {
	for _, hash := range []string{
		"#alg=zab&servers=5&seed=9&do=2000:write:s1:a,2600:kill:s5,4000.25:part:s1.s2,6000:healall,7000:start:s5,8000:write:s2:b",
		"#alg=unfenced&servers=4&seed=3&do=3000:pause:c1,3000:pause:c2,9000:resume:c1,9000:resume:c2",
		"#alg=bully&servers=7&seed=5&do=2000:cut:s7:s1,4000:delaynext:s6:s5:900",
	} {
		var first any
		for range 2 {
			p := open(t, hash)
			text := eval[string](p, `import("./engine.js").then(async ({ Engine }) => {
				const engine = new Engine();
				await engine.ask("open", { spec: location.hash.slice(1) });
				return JSON.stringify((await engine.ask("run", { toUs: 15000000, since: 0 })).frame);
			})`)
			var frame any
			if err := json.Unmarshal([]byte(text), &frame); err != nil {
				t.Fatal(err)
			}
			if first != nil && !reflect.DeepEqual(first, frame) {
				t.Errorf("%s ends in two ways", hash)
			}
			first = frame
		}
		if byCommand := replay(t, laboratory.url+hash, "15"); !reflect.DeepEqual(first, byCommand) {
			t.Errorf("%s: the page ends with\n%v\nthe command with\n%v", hash, first, byCommand)
		}
	}
}

// TestScenarioStopsAtItsExplanations, and at the end shows what it says.
func TestScenarioStopsAtItsExplanations(t *testing.T) {
	p := open(t, "#scenario=unfenced")
	p.run(chromedp.Evaluate(`document.querySelector("#speed").value = 2; null`, nil), chromedp.Click("#play"))
	p.await(`document.querySelector("#play").getAttribute("aria-pressed") === "false"`)
	if caption := eval[string](p, `document.querySelector("#caption").textContent`); !strings.Contains(caption, "paused before it writes") {
		t.Errorf("it stopped at %q", caption)
	}
	p.fast()
	p.run(chromedp.Click("#play"))
	p.await(`document.querySelector("#rules .broken") !== null`)
	if rules := eval[string](p, `document.querySelector("#rules .broken").textContent`); !strings.Contains(rules, "what was added in between is lost") {
		t.Errorf("broken: %q", rules)
	}
	p.run(chromedp.Click("#rules .why button"))
	p.await(`document.querySelector("#now").textContent.startsWith("13.")`)
}

// TestLineThroughTheSceneParts the servers on its two sides.
func TestLineThroughTheSceneParts(t *testing.T) {
	p := open(t, "#alg=raft&servers=5&seed=1")
	at := func(x, y float64) (float64, float64) {
		box := eval[[]float64](p, `(() => { const m = document.querySelector("#scene").getScreenCTM(); return [m.a, m.d, m.e, m.f]; })()`)
		return box[0]*x + box[2], box[1]*y + box[3]
	}
	mouse := func(kind input.MouseType, x, y float64) chromedp.Action {
		x, y = at(x, y)
		return chromedp.MouseEvent(kind, x, y, chromedp.ButtonLeft)
	}
	p.run(mouse(input.MousePressed, 300, 40), mouse(input.MouseMoved, 400, 400), mouse(input.MouseMoved, 430, 700), mouse(input.MouseReleased, 430, 700))
	p.await(`document.querySelectorAll("#links .cut").length > 0`)
	if cuts := eval[int](p, `document.querySelectorAll("#links .cut").length`); cuts != 12 {
		t.Errorf("%d ways are cut, of two servers and three 12 would be", cuts)
	}
	p.run(chromedp.Click("#healall"))
	p.await(`document.querySelectorAll("#links .cut").length === 0`)
}

// TestMessageIsDropped: the next message on its way is selected and dropped.
func TestMessageIsDropped(t *testing.T) {
	p := open(t, "#alg=bully&servers=3&seed=1")
	p.run(chromedp.Click("#step"))
	p.await(`document.querySelector("#now").textContent !== "0.000 s" && document.querySelectorAll(".flight:not(.lost)").length > 0`)
	p.run(chromedp.Evaluate(`document.querySelector(".flight:not(.lost)").dispatchEvent(new MouseEvent("click", { bubbles: true })); null`, nil),
		chromedp.Click(`//div[@id="actions"]/button[text()="Drop"]`, chromedp.BySearch))
	p.await(`document.querySelector(".flight.lost") !== null && /:drop:\d/.test(location.hash)`)
}

// TestKeyboardIsEnough: without a mouse, a server is reached, selected and killed, and time
// steps forward and back.
func TestKeyboardIsEnough(t *testing.T) {
	p := open(t, "#alg=raft&servers=3&seed=1")
	now := `document.querySelector("#now").textContent`
	p.run(chromedp.KeyEvent(kb.ArrowRight))
	p.await(now + ` !== "0.000 s"`)
	before := eval[string](p, now)
	p.run(chromedp.KeyEvent(kb.ArrowRight))
	p.await(fmt.Sprintf("%s !== %q", now, before))
	p.run(chromedp.KeyEvent(kb.Home))
	p.await(now + ` === "0.000 s"`)
	p.run(chromedp.Focus(`.node[data-key="s2"]`), chromedp.KeyEvent(kb.Enter))
	p.await(`document.querySelector("#selected-title").textContent === "s2"`)
	p.run(chromedp.Focus(`//div[@id="actions"]/button[text()="Kill"]`, chromedp.BySearch), chromedp.KeyEvent(kb.Enter))
	p.await(`document.querySelector('.node.down[data-key="s2"]') !== null`)
}

// TestKeysChooseMessagesAndStepBesideButtons: an element that has the focus after a click
// does not consume keys that it does not use.
func TestKeysChooseMessagesAndStepBesideButtons(t *testing.T) {
	p := open(t, "#alg=bully&servers=3&seed=1")
	now := `document.querySelector("#now").textContent`
	p.run(chromedp.Click("#restart"), chromedp.KeyEvent(kb.ArrowRight))
	p.await(now + ` !== "0.000 s" && document.querySelectorAll(".flight:not(.lost)").length > 0`)
	p.run(chromedp.Focus(".flight:not(.lost)"), chromedp.KeyEvent(kb.Enter))
	p.await(`/^Message \d+$/.test(document.querySelector("#selected-title").textContent)`)
	p.run(chromedp.Focus(`//div[@id="actions"]/button[text()="Drop"]`, chromedp.BySearch), chromedp.KeyEvent(kb.Enter))
	p.await(`document.querySelector(".flight.lost") !== null`)
}

// TestURLThatNamesNoRunIsTold, and the page stays usable; a URL without an algorithm has
// the command's default.
func TestURLThatNamesNoRunIsTold(t *testing.T) {
	failure := `document.querySelector("#failure").textContent`
	for hash, why := range map[string]string{
		"#scenario=nothing": "no scenario nothing", "#alg=paxos": "alg=paxos", "#servers=99": "servers=99", "#nothing=1": "nothing", "#alg=raft&do=x": "action",
	} {
		p := open(t, hash)
		if text := eval[string](p, failure); !strings.Contains(text, why) {
			t.Errorf("%s: %q", hash, text)
		}
		if caption := eval[string](p, `document.querySelector("#caption").textContent`); strings.Contains(caption, "loaded") {
			t.Errorf("%s: %s", hash, caption)
		}
		p.run(chromedp.Click("#step"))
		p.await(failure + ` === "" && document.querySelector("#now").textContent !== "0.000 s"`)
	}
	p := open(t, "#servers=3&seed=5")
	p.await(`location.hash === "#alg=raft&servers=3&seed=5"`)
	p.run(chromedp.SetValue("#servers", "99"), chromedp.Evaluate(`document.querySelector("#servers").dispatchEvent(new Event("change")); null`, nil))
	p.await(failure + `.includes("servers=99") && document.querySelectorAll(".node").length === 3`)
}

// TestLogHasEachNoteOnce, even if a step is requested while time passes.
func TestLogHasEachNoteOnce(t *testing.T) {
	p := open(t, "#alg=zab&servers=5&seed=1")
	p.run(chromedp.Evaluate(`document.querySelector("#speed").value = 0; null`, nil), chromedp.Click("#play"))
	p.run(chromedp.Evaluate(`(async () => {
		for (let i = 0; i < 60; i++) {
			await new Promise(requestAnimationFrame);
			for (const id of i % 6 === 5 && i < 20 ? ["back", "step", "play"] : ["step", "play"]) document.querySelector("#" + id).click();
		}
	})()`, nil, func(e *runtime.EvaluateParams) *runtime.EvaluateParams { return e.WithAwaitPromise(true) }))
	p.await(`document.querySelector("#play").getAttribute("aria-pressed") === "true"`)
	p.run(chromedp.Click("#play"))
	wrong := eval[string](p, `import("./engine.js").then(async ({ Engine }) => {
		const engine = new Engine();
		await engine.ask("open", { spec: location.hash.slice(1) }); // by now the page has all its replies
		const shown = [...document.querySelectorAll("#log li span:last-child")].map((e) => e.textContent);
		const ms = Number(document.querySelector("#moment").value);
		const notes = (await engine.ask("run", { toUs: Math.round(ms * 1000) + 2000, since: 0 })).frame.notes;
		const least = notes.filter((e) => e.atUs < ms * 1000 - 2000).length;
		const at = shown.findIndex((text, i) => text !== notes[i]?.text);
		return at >= 0 ? "the note " + at + " is " + shown[at] : shown.length < least ? shown.length + " of " + least + " notes" : "";
	})`)
	if wrong != "" {
		t.Error(wrong)
	}
}

// TestAxeFindsNothing in either theme and language, in the middle of a run with everything
// visible.
func TestAxeFindsNothing(t *testing.T) {
	for _, theme := range []string{"light", "dark"} {
		for _, language := range []string{"en", "zh"} {
			p := open(t, "#scenario=late-write")
			p.look(theme, language)
			p.run(chromedp.Evaluate(`document.querySelector('.node[data-key="c2"]').dispatchEvent(new MouseEvent("click", { bubbles: true })); null`, nil))
			p.seek(14400)
			p.axe(theme + ", " + language)
		}
	}
}

// axe checks the page with axe-core, which must find no problem.
func (p *page) axe(what string) {
	p.t.Helper()
	axe, err := os.ReadFile(os.Getenv("AXE"))
	if err != nil {
		p.t.Fatal("AXE must name axe.min.js, as `make browser` has it: ", err)
	}
	p.run(chromedp.Evaluate(string(axe)+"; null", nil))
	found := eval[[]string](p, `axe.run().then((r) => r.violations.map((v) => v.id + ": " + v.help + " " + v.nodes.map((n) => n.target).join(", ")))`)
	for _, violation := range found {
		p.t.Errorf("%s: %s", what, violation)
	}
}

// look sets the theme and the language.
func (p *page) look(theme, language string) {
	p.t.Helper()
	p.run(chromedp.Evaluate(fmt.Sprintf(`
		if (document.documentElement.dataset.theme !== %q) document.querySelector("#theme").click();
		if (document.documentElement.lang.slice(0, 2) !== %q) document.querySelector("#language").click(); null`, theme, language), nil))
}

// seek shows a time of the run, in milliseconds.
func (p *page) seek(ms int) {
	p.t.Helper()
	p.run(chromedp.Evaluate(fmt.Sprintf(`(() => { const m = document.querySelector("#moment"); m.value = %d; m.dispatchEvent(new Event("change")); })()`, ms), nil))
	p.await(fmt.Sprintf(`document.querySelector("#now").textContent === "%d.%03d s"`, ms/1000, ms%1000))
}

// TestPageFitsEveryScreen: nothing is wider than the screen, from a phone's to a wall
// display's. With SHOTS it stores screenshots.
func TestPageFitsEveryScreen(t *testing.T) {
	moments := map[string]int{"bully": 6600, "disk-full": 9120, "late-write": 14470}
	for _, width := range []int64{360, 768, 1280, 2560} {
		for name, moment := range moments {
			for _, language := range []string{"en", "zh"} {
				theme := map[string]string{"en": "light", "zh": "dark"}[language]
				p := open(t, "#scenario="+name)
				p.run(emulation.SetDeviceMetricsOverride(width, map[bool]int64{true: 780, false: width * 5 / 8}[width < 700], 1, width < 700))
				p.look(theme, language)
				p.seek(moment)
				if wide := eval[int64](p, "document.documentElement.scrollWidth"); wide > width {
					t.Errorf("%s at %d: the page is %d wide", name, width, wide)
				}
				if dir := os.Getenv("SHOTS"); dir != "" {
					var shot []byte
					p.run(chromedp.FullScreenshot(&shot, 100))
					if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d-%s-%s.png", name, width, theme, language)), shot, 0o644); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
}

// TestVotesAreDrawn: until there is a leader, an arrow from each server to the one that it
// votes for, and the number of votes for each. With SHOTS it stores screenshots.
func TestVotesAreDrawn(t *testing.T) {
	p := open(t, "#alg=zab&servers=5&seed=1")
	for _, look := range []struct {
		theme, language string
		width           int64
	}{{"light", "en", 1280}, {"dark", "zh", 360}} {
		p.look(look.theme, look.language)
		p.run(emulation.SetDeviceMetricsOverride(look.width, 780, 1, false))
		p.seek(50)
		if arrows := eval[string](p, `[...document.querySelectorAll("#links .votes-for")].map((l) => l.dataset.key).join(", ")`); arrows != "vote s1, vote s2, vote s3" {
			t.Errorf("arrows: %s", arrows)
		}
		want := map[string]string{"en": ",,,2 votes,3 votes", "zh": ",,,2 票,3 票"}[look.language]
		if votes := eval[string](p, `[...document.querySelectorAll(".node .votes")].map((v) => v.textContent).join(",")`); votes != want {
			t.Errorf("%s: votes %q, want %q", look.language, votes, want)
		}
		if eval[int](p, `document.querySelectorAll("#fields dd").length`) == 0 {
			p.run(chromedp.Evaluate(`document.querySelector('.node[data-key="s1"]').dispatchEvent(new MouseEvent("click", {bubbles: true})); null`, nil))
		}
		p.await(`document.querySelector("#fields").textContent.includes("s1 (for s5)")`)
		if dir := os.Getenv("SHOTS"); dir != "" {
			var shot []byte
			p.run(chromedp.FullScreenshot(&shot, 100))
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("votes-%d-%s-%s.png", look.width, look.theme, look.language)), shot, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	p.seek(300)
	if drawn := eval[int](p, `document.querySelectorAll("#links .votes-for").length`); drawn != 0 {
		t.Errorf("with a leader there are %d arrows", drawn)
	}
}

// TestNineServersAreDrawnSmoothly reports the frames per second; it fails only if the page
// hardly moves.
func TestNineServersAreDrawnSmoothly(t *testing.T) {
	p := open(t, "#alg=zab&servers=9&seed=1&do=2000:kill:s9,5000:start:s9")
	p.run(chromedp.Evaluate(`document.querySelector("#speed").value = 0; null`, nil), chromedp.Click("#play"))
	frames := eval[float64](p, `new Promise((resolve) => {
		let n = 0;
		const begin = performance.now();
		const count = () => { n++; performance.now() - begin < 3000 ? requestAnimationFrame(count) : resolve(n * 1000 / (performance.now() - begin)); };
		requestAnimationFrame(count);
	})`)
	t.Logf("%.0f frames a second, drawn up to %s", frames, eval[string](p, `document.querySelector("#now").textContent`))
	if frames < 5 {
		t.Errorf("%.1f frames a second", frames)
	}
}
