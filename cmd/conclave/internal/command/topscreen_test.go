package command

import (
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/conclave-project/conclave/zk"
)

// sceneOf returns a screen that has seen three servers, five elections and twenty clients.
func sceneOf(t *testing.T) *topScreen {
	t.Helper()
	looks := 0
	s := &topScreen{
		see: func() look {
			looks++
			return *manyLook(looks)
		},
		elect: func(at *look) elected {
			if len(at.servers) != 3 {
				t.Errorf("elections are looked at on %q", at.addresses())
			}
			e := elected{more: 2, others: []foreign{{Path: "/old/cron", Kind: "latch", Library: "Curator", Leader: "_c_1", Waiting: []string{"_c_2"}}}}
			for i := range 5 {
				e.all = append(e.all, seen{Election: fmt.Sprintf("billing/%d", i), Leader: "anna\x1b[2J", Token: 7})
			}
			return e
		},
		after:   func(time.Duration, func(time.Time) tea.Msg) tea.Cmd { return func() tea.Msg { return waiting{} } },
		refresh: 2 * time.Second, focus: listClients, width: 80, height: 24,
	}
	s.saw(*manyLook(0))
	s.Update(tea.WindowSizeMsg{Width: 120, Height: 30})
	return s
}

// manyLook returns the look at three servers after n seconds.
func manyLook(n int) *look {
	l := lookOf(n, -1, standing{Server: "a:1", ID: "1", Mode: "leader", Received: fmt.Sprint(100 * n), Mntr: map[string]string{
		"zk_cnt_orders_write_per_namespace": fmt.Sprint(30 * n), "zk_cnt_stock_write_per_namespace": fmt.Sprint(10 * n), "zk_watches_rejected": fmt.Sprint(n)}},
		standing{Server: "b:1", ID: "2", Mode: "follower", Lag: "3"}, standing{Server: "c:1", ID: "3", Error: "refused"})
	for i := range 20 {
		received, queued := int64(n*(i+1)), int64(20-i)
		l.clients[connectedID(i)] = held{Session: connectedID(i).String(), Client: "10.0.0.7:1", Server: "a:1", Received: &received, queued: &queued}
	}
	return l
}

// waiting is the message of a wait that does not end.
type waiting struct{}

// playAll runs the commands of a screen as its program does, and returns how many of them wait.
func (s *topScreen) playAll(t *testing.T, c tea.Cmd) (waits int) {
	t.Helper()
	if c == nil {
		return 0
	}
	switch message := c().(type) {
	case waiting:
		return 1
	case tea.BatchMsg:
		for _, one := range message {
			waits += s.playAll(t, one)
		}
	default:
		_, next := s.Update(message)
		waits = s.playAll(t, next)
	}
	return waits
}

// lines returns the lines of the screen, without styles.
func (s *topScreen) lines() []string { return strings.Split(ansi.Strip(s.View().Content), "\n") }

func (s *topScreen) press(t *testing.T, key string) tea.Cmd {
	t.Helper()
	k := tea.Key{Text: key, Code: []rune(key)[0]}
	for name, code := range map[string]rune{"up": tea.KeyUp, "down": tea.KeyDown, "tab": tea.KeyTab, "pgdown": tea.KeyPgDown, "home": tea.KeyHome} {
		if key == name {
			k = tea.Key{Code: code}
		}
	}
	if key == "ctrl+c" {
		k = tea.Key{Code: 'c', Mod: tea.ModCtrl}
	}
	_, c := s.Update(tea.KeyPressMsg(k))
	return c
}

func (s *topScreen) shows(t *testing.T, what string, wants ...string) {
	t.Helper()
	lines := s.lines()
	for _, want := range wants {
		found := false
		for _, line := range lines {
			found = found || strings.Contains(line, want)
		}
		if !found {
			t.Errorf("%s: no %q in\n%s", what, want, strings.Join(lines, "\n"))
		}
	}
	if len(lines) != s.height {
		t.Errorf("%s: %d lines on a screen of %d", what, len(lines), s.height)
	}
	for _, line := range lines {
		if ansi.StringWidth(line) > s.width || strings.ContainsRune(line, '\x1b') {
			t.Errorf("%s: line %q on a screen of %d columns", what, line, s.width)
		}
	}
}

func TestTopScreenRenewsItself(t *testing.T) {
	s := sceneOf(t)
	s.shows(t, "at first", "2 of 3 servers serve", "every 2s", "22:13:20Z", "c:1", "no answer", "q quit")
	if !s.View().AltScreen {
		t.Error("the page takes the place of what was on the terminal")
	}
	if waits := s.playAll(t, s.Init()); waits != 1 {
		t.Errorf("%d waits", waits)
	}
	s.shows(t, "with elections", "billing/0", "ELECTIONS, and 2 more", "anna\uFFFD[2J")
	if _, c := s.Update(waited{s.waits - 1}); c != nil {
		t.Error("a wait that was replaced counts")
	}
	_, c := s.Update(waited{s.waits})
	if _, again := s.Update(waited{s.waits}); again != nil {
		t.Error("two looks at once")
	}
	if waits := s.playAll(t, c); waits != 1 {
		t.Errorf("%d waits", waits)
	}
	s.shows(t, "after a look", "22:13:21Z", "limit hit on a:1: watches_rejected +1", "/orders  0        30", "a:1     1   leader     -      -     -    100", "0x14     10.0.0.7:1  a:1     20")
}

func TestTopScreenKeys(t *testing.T) {
	s := sceneOf(t)
	_, c := s.Update(waited{s.waits})
	s.playAll(t, c)
	first := func() string {
		lines := s.lines()
		for i, line := range lines {
			if strings.HasPrefix(line, "SESSION") {
				return strings.Fields(lines[i+1])[0]
			}
		}
		return ""
	}
	if got := first(); got != "0x14" {
		t.Errorf("by requests: %s", got)
	}
	s.press(t, "s")
	s.shows(t, "sorted", "CLIENTS by queued")
	if got := first(); got != "0x1" {
		t.Errorf("by queued: %s", got)
	}
	s.press(t, "down")
	s.press(t, "j")
	s.shows(t, "moved", "CLIENTS by queued, from 3")
	if got := first(); got != "0x3" {
		t.Errorf("moved: %s", got)
	}
	s.press(t, "up")
	s.press(t, "pgdown")
	s.press(t, "pgdown")
	s.press(t, "pgdown")
	s.shows(t, "at the end", "from 20")
	s.press(t, "home")
	s.press(t, "tab")
	s.press(t, "down")
	s.shows(t, "the other list", "ELECTIONS, and 2 more that are not looked at, from 2")
	s.press(t, "tab")
	s.press(t, "down")
	s.press(t, "down")
	s.shows(t, "the list of paths", "PATHS, from 2", "/stock   0        10")

	if waits := s.playAll(t, s.press(t, "+")); waits != 1 || s.refresh != 4*time.Second {
		t.Errorf("%d waits, %v", waits, s.refresh)
	}
	for range 5 {
		s.press(t, "-")
	}
	s.shows(t, "often", "every 500ms")
	s.press(t, "p")
	s.shows(t, "paused", "PAUSED")
	if _, c := s.Update(waited{s.waits}); c != nil {
		t.Error("it looks, though it pauses")
	}
	at := s.page.Time
	s.Update(sawServers{*manyLook(50)})
	if s.page.Time != at {
		t.Error("a page that pauses changes")
	}
	s.playAll(t, s.press(t, "p"))
	if s.page.Time == at || s.paused {
		t.Error("it pauses for ever")
	}
	for _, key := range []string{"q", "ctrl+c"} {
		if c := s.press(t, key); c == nil || c() != tea.Quit() {
			t.Errorf("%s does not end it", key)
		}
	}
}

// A terminal may have any size, also while the page is shown.
func TestTopScreenFitsIntoEveryTerminal(t *testing.T) {
	s := sceneOf(t)
	s.playAll(t, s.lookAtElections())
	for _, height := range []int{1, 2, 5, 9, 12, 24, 60} {
		for _, width := range []int{1, 20, 80, 200} {
			s.Update(tea.WindowSizeMsg{Width: width, Height: height})
			s.shows(t, fmt.Sprintf("%d columns of %d lines", width, height))
		}
	}
	s.Update(tea.WindowSizeMsg{Width: 120, Height: 60})
	s.shows(t, "a large one", "0x1 ", "0x14 ", "billing/4", "/old/cron (latch of Curator)  _c_1")
}

func connectedID(i int) zk.SessionID { return zk.SessionID(i + 1) }
