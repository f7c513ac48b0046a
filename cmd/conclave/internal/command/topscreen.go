package command

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
)

// topScreen is the page of `conclave top` on a terminal: a value that messages change.
// Whatever takes time is done by the commands that Update returns.
type topScreen struct {
	see     func() look
	elect   func(at *look) elected
	after   func(d time.Duration, then func(time.Time) tea.Msg) tea.Cmd
	refresh time.Duration

	before, now *look
	elections   elected
	page        page
	order       int // index in clientOrders
	paused      bool
	seeing      bool // a look at the servers is in progress
	electing    bool // a look at the elections is in progress
	waits       int  // number of waits begun for the next look; only the last one counts
	width       int
	height      int
	focus       int // the list that keys move
	from        [lists]int
}

// Lists of the screen.
const (
	listElections = iota
	listPaths
	listClients

	lists
)

// Messages of the screen to itself.
type (
	sawServers   struct{ look look }
	sawElections struct{ elected elected }
	waited       struct{ wait int }
)

func newTopScreen(ctx context.Context, o *overseer, interval time.Duration, order int) *topScreen {
	return &topScreen{
		see: func() look { return o.look(ctx) }, elect: func(at *look) elected { return o.elected(ctx, at) },
		after: tea.Tick, refresh: interval, order: order, focus: listClients, width: 80, height: 24,
	}
}

// Init implements tea.Model.
func (s *topScreen) Init() tea.Cmd { return tea.Batch(s.lookAtElections(), s.wait()) }

// wait begins the wait for the next look.
func (s *topScreen) wait() tea.Cmd {
	s.waits++
	number := s.waits
	return s.after(s.refresh, func(time.Time) tea.Msg { return waited{number} })
}

// lookAgain looks at the servers, unless a look is in progress.
func (s *topScreen) lookAgain() tea.Cmd {
	if s.seeing {
		return nil
	}
	s.seeing = true
	return func() tea.Msg { return sawServers{s.see()} }
}

func (s *topScreen) lookAtElections() tea.Cmd {
	if s.electing || s.now == nil {
		return nil
	}
	s.electing = true
	at := s.now
	return func() tea.Msg { return sawElections{s.elect(at)} }
}

// saw stores a look.
func (s *topScreen) saw(l look) {
	s.before, s.now = s.now, &l
	s.renew()
}

// renew computes the page from what was seen.
func (s *topScreen) renew() {
	s.page = newPage(s.before, s.now, &s.elections)
	s.page.sort(s.order)
}

// Update implements tea.Model.
func (s *topScreen) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch m := message.(type) {
	case tea.WindowSizeMsg:
		s.width, s.height = m.Width, m.Height
	case tea.KeyPressMsg:
		return s, s.key(m.String())
	case waited:
		if m.wait == s.waits && !s.paused {
			return s, s.lookAgain()
		}
	case sawServers:
		s.seeing = false
		if s.paused {
			return s, nil // leave the page as it is
		}
		s.saw(m.look)
		return s, tea.Batch(s.lookAtElections(), s.wait())
	case sawElections:
		s.electing = false
		if !s.paused {
			s.elections = m.elected
			s.renew()
		}
	}
	return s, nil
}

// key handles a key.
func (s *topScreen) key(name string) tea.Cmd {
	switch name {
	case "q", "ctrl+c":
		return tea.Quit
	case "s":
		s.order = (s.order + 1) % len(clientOrders)
		s.page.sort(s.order)
	case "p", "space":
		if s.paused = !s.paused; !s.paused {
			return s.lookAgain()
		}
	case "+", "=":
		return s.every(s.refresh * 2)
	case "-":
		return s.every(s.refresh / 2)
	case "tab", "right":
		s.focus = (s.focus + 1) % lists
	case "left", "shift+tab":
		s.focus = (s.focus + lists - 1) % lists
	case "up", "k":
		s.move(-1)
	case "down", "j":
		s.move(1)
	case "pgup":
		s.move(-10)
	case "pgdown":
		s.move(10)
	case "home":
		s.from[s.focus] = 0
	}
	return nil
}

// every changes the interval between two looks.
func (s *topScreen) every(interval time.Duration) tea.Cmd {
	s.refresh = min(max(interval, topIntervalMin), topIntervalMax)
	if s.seeing || s.paused {
		return nil // the next wait uses the new interval
	}
	return s.wait()
}

// move moves through the list that has the focus.
func (s *topScreen) move(rows int) {
	length := [lists]int{len(s.page.Elections) + len(s.page.Others), len(s.page.Paths), len(s.page.Clients)}[s.focus]
	s.from[s.focus] = min(max(0, s.from[s.focus]+rows), max(0, length-1))
}

// Styles of the screen. A terminal without colors shows none of them.
var (
	topTitle = lipgloss.NewStyle().Bold(true).Reverse(true)
	topHead  = lipgloss.NewStyle().Bold(true)
	topFocus = lipgloss.NewStyle().Bold(true).Underline(true)
	topLeads = lipgloss.NewStyle().Foreground(lipgloss.Green)
	topWrong = lipgloss.NewStyle().Foreground(lipgloss.Red)
	topFaint = lipgloss.NewStyle().Faint(true)
)

const topKeys = "q quit  s sort  p pause  + - interval  tab list  arrows move"

// View implements tea.Model.
func (s *topScreen) View() tea.View {
	v := tea.NewView(s.content())
	v.AltScreen = true
	return v
}

// content returns the lines of the screen, exactly as many as it has.
func (s *topScreen) content() string {
	lines := append([]string{topTitle.Render(s.fill(s.title()))}, s.serverLines()...)
	for _, problem := range s.page.Problems {
		lines = append(lines, topWrong.Render(s.fit(cli.Visible(problem))))
	}
	for _, line := range s.page.limitLines() {
		lines = append(lines, topWrong.Render(s.fit(cli.Visible(line))))
	}
	all := [lists]struct {
		title string
		table []string
	}{
		{"ELECTIONS" + s.moreElections(), tableLines(electionHeader, s.page.electionRows())},
		{"PATHS", tableLines(pathHeader, s.page.pathRows())},
		{"CLIENTS by " + clientOrders[s.order].name, tableLines(clientHeader, s.page.clientRows())},
	}
	space := max(0, s.height-len(lines)-3*lists) // above each list an empty line, a title and a header; the keys take what is left of one
	for i, l := range all {
		// A list gets its share, and what later lists do not need.
		needed := 0
		for _, later := range all[i+1:] {
			needed += min(len(later.table)-1, space/(lists-i))
		}
		shown := min(len(l.table)-1, space-needed)
		lines = append(append(lines, ""), s.list(i, l.title, l.table, shown)...)
		space -= shown
	}
	for len(lines) < s.height-1 {
		lines = append(lines, "")
	}
	return strings.Join(append(lines[:max(0, min(len(lines), s.height-1))], topFaint.Render(s.fit(topKeys))), "\n")
}

func (s *topScreen) title() string {
	text := "conclave top  " + s.page.summary() + fmt.Sprintf("  every %v  ", s.refresh)
	if _, clock, found := strings.Cut(s.page.Time, "T"); found {
		text += strings.TrimSuffix(clock[:min(len(clock), len("15:04:05"))], ".") + "Z"
	}
	if s.paused {
		text += "  PAUSED"
	}
	return text
}

// fit truncates a line to the width of the screen.
func (s *topScreen) fit(line string) string {
	return lipgloss.NewStyle().MaxWidth(s.width).Render(line)
}

// fill is fit, padded with spaces.
func (s *topScreen) fill(line string) string {
	line = s.fit(line)
	return line + strings.Repeat(" ", max(0, s.width-lipgloss.Width(line)))
}

// tableLines returns the lines of a table, the header first.
func tableLines(header []string, rows [][]string) []string {
	var b bytes.Buffer
	_ = cli.Table(&b, header, rows) // writing to a buffer cannot fail
	return slices.Collect(strings.SplitSeq(strings.TrimSuffix(b.String(), "\n"), "\n"))
}

func (s *topScreen) serverLines() []string {
	lines := tableLines(topHeader, s.page.serverRows())
	for i := range lines {
		style := lipgloss.NewStyle()
		switch {
		case i == 0:
			style = topHead
		case s.page.Servers[i-1].Error != "":
			style = topWrong
		case s.page.Servers[i-1].Mode == "leader":
			style = topLeads
		}
		lines[i] = style.Render(s.fit(lines[i]))
	}
	return lines
}

func (s *topScreen) moreElections() string {
	if s.page.MoreElections == 0 {
		return ""
	}
	return fmt.Sprintf(", and %d more that are not looked at", s.page.MoreElections)
}

// list is a part of a table below its title, from the place to which it was moved.
func (s *topScreen) list(which int, title string, table []string, rows int) []string {
	style := topHead
	if which == s.focus {
		style = topFocus
	}
	from := min(s.from[which], max(0, len(table)-2))
	if from > 0 {
		title += fmt.Sprintf(", from %d", from+1)
	}
	lines := []string{style.Render(s.fit(title))}
	if len(table) == 1 {
		return append(lines, topFaint.Render(s.fit("none")))
	}
	lines = append(lines, topHead.Render(s.fit(table[0])))
	for _, line := range table[1+from:][:max(0, min(rows, len(table)-1-from))] {
		lines = append(lines, s.fit(line))
	}
	return lines
}
