package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"unicode/utf8"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/cmd/conclave/internal/shell"
	"github.com/ergochat/readline"
	"github.com/spf13/cobra"
)

// converse runs the lines that a person types.
func (v *shelling) converse(c *cobra.Command, o shell.Options) error {
	ctx, stop := untilSignal(c.Context(), syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer stop()
	kept := openHistory()
	defer kept.close()
	completing := &completing{}
	config := &readline.Config{
		InterruptPrompt: "^C", EOFPrompt: "\n", HistoryLimit: historyMax, DisableAutoSaveHistory: true, HistorySearchFold: true,
		AutoComplete: completing, Undo: true,
	}
	if os.Getenv("TERM") == "dumb" {
		config.FuncIsTerminal = func() bool { return false }
	}
	terminal, err := readline.NewFromConfig(config)
	if err != nil {
		return fmt.Errorf("use the terminal: %w", err)
	}
	defer terminal.Close()
	defer context.AfterFunc(ctx, func() { _ = terminal.Close() })()
	for _, line := range kept.lines {
		_ = terminal.SaveToHistory(line) // the line is still in memory
	}
	o.Out, o.Err = terminal.Stdout(), terminal.Stderr()
	var s *shell.Shell
	o.Changed = func() {
		terminal.SetPrompt(prompt(s, o.Color))
		terminal.Refresh()
	}
	s = shell.New(o)
	defer s.Close()
	completing.shell = s
	if err := v.greet(ctx, s, o); err != nil {
		return err
	}
	for !s.Left() && ctx.Err() == nil {
		terminal.SetPrompt(prompt(s, o.Color))
		line, err := terminal.ReadLine()
		if errors.Is(err, readline.ErrInterrupt) {
			continue
		}
		if err != nil {
			break // Ctrl-D, or the terminal is gone
		}
		if shell.Kept(line) {
			_ = terminal.SaveToHistory(line)
			kept.add(line)
		}
		interruptible(ctx, o.Err, func(ctx context.Context) { s.Run(ctx, line) })
	}
	return nil
}

// greet opens the session, and describes it. A person can type even without a server.
func (v *shelling) greet(ctx context.Context, s *shell.Shell, o shell.Options) error {
	if err := s.Connect(""); err != nil {
		return err
	}
	var failed error
	interruptible(ctx, o.Err, func(ctx context.Context) { failed = v.await(ctx, o.Servers, s.Await) })
	if failed != nil {
		cli.Report(o.Err, failed)
		return nil
	}
	fmt.Fprintln(o.Err, "connected: help lists the commands, tab completes, Ctrl-D leaves")
	return nil
}

// interruptible calls f with a context that Ctrl-C ends.
func interruptible(ctx context.Context, w io.Writer, f func(context.Context)) {
	ctx, cancel := context.WithCancel(ctx)
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-interrupts:
			fmt.Fprintln(w) // after the ^C of the terminal
			cancel()
		case <-ctx.Done():
		}
	})
	f(ctx)
	cancel()
	signal.Stop(interrupts)
	watching.Wait()
}

// prompt returns the text before a line. Escape codes for colors are marked as having no
// width.
func prompt(s *shell.Shell, color bool) string {
	if !color {
		return s.Prompt()
	}
	return "\x1b[1m" + s.Prompt() + "\x1b[0m"
}

// completing implements the terminal's completion.
type completing struct{ shell *shell.Shell }

// Do returns the possible endings of the argument before the cursor, and the length of what
// is already typed.
func (c *completing) Do(line []rune, pos int) ([][]rune, int) {
	before := string(line[:pos])
	found, start := c.shell.Complete(before)
	var endings [][]rune
	for _, one := range found {
		endings = append(endings, []rune(one))
	}
	return endings, utf8.RuneCountInString(before[start:])
}

// historyMax is how many lines are kept.
const historyMax = 1000

// keptHistory is the file with the lines that were typed.
type keptHistory struct {
	lines []string
	file  *os.File // nil if there is none: then only the lines of this process are known
}

// openHistory reads the kept lines, and opens the file for more. If that fails, the shell
// works without it.
func openHistory() *keptHistory {
	h := &keptHistory{}
	name, err := historyFile()
	if err != nil || os.MkdirAll(filepath.Dir(name), 0o700) != nil {
		return h
	}
	file, err := os.OpenFile(name, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return h
	}
	text, err := io.ReadAll(io.LimitReader(file, 16<<20))
	if err != nil || file.Chmod(0o600) != nil {
		_ = file.Close()
		return h
	}
	for line := range strings.Lines(string(text)) {
		h.lines = append(h.lines, strings.TrimSuffix(line, "\n"))
	}
	h.file = file
	if len(h.lines) > 2*historyMax {
		h.lines = h.lines[len(h.lines)-historyMax:]
		if file.Truncate(0) == nil {
			_, _ = file.WriteString(strings.Join(h.lines, "\n") + "\n")
		}
	}
	return h
}

// historyFile is sh_history in $XDG_STATE_HOME/conclave, or in ~/.local/state/conclave.
func historyFile() (string, error) {
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "conclave", "sh_history"), nil
}

// add appends a line at once, because another shell may be open, and this one may be ended
// by a signal.
func (h *keptHistory) add(line string) {
	if h.file != nil {
		_, _ = h.file.WriteString(line + "\n") // an error, as in openHistory
	}
}

func (h *keptHistory) close() {
	if h.file != nil {
		_ = h.file.Close()
	}
}
