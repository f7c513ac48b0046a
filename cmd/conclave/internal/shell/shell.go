package shell

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/zk"
)

// Options configure a shell.
type Options struct {
	Out, Err io.Writer // answers, and everything else, split as in zkCli.sh

	// Open begins a session with servers; "" means the shell's initial ones. It does not
	// wait for a server.
	Open func(servers string) (*client.Client, error)

	Servers string        // as prompts and errors show them
	Timeout time.Duration // how long a command waits for each answer
	Version string        // output of the command version

	Changed func() // called when Prompt would return another text; may be nil

	Person bool // a person types the lines: data is made Safe, too, and remarks are printed
	Color  bool // errors and events may have colors
}

// Shell runs lines. Except for Prompt, its methods are called by one goroutine.
type Shell struct {
	options  Options
	commands []command
	life     context.Context
	end      context.CancelFunc
	group    sync.WaitGroup // goroutines that follow sessions and watches

	history []string // all lines that were run
	block   *block   // of multi, nil if none is open; written under mu
	code    int      // exit code of the last command
	left    bool     // quit was called

	completeWithin time.Duration
	unpaged        *client.Client // a session whose server does not support pages; nil for none

	mu          sync.Mutex // guards all below
	out         *bufio.Writer
	conn        *client.Client // nil before the first Connect and after close
	dir         string         // to which paths without a leading slash are relative
	servers     string
	printing    bool // whether events of zkCli.sh's watches are printed
	probing     bool // a request is under way after which the server may end the connection
	credentials []client.Credential
	watches     map[watchKey]*watching
	told        [toldMax]zk.Event // the last events that were printed
	toldNext    int
}

// New returns a shell without a session; Connect opens one.
func New(o Options) *Shell {
	s := &Shell{options: o, commands: table(), out: bufio.NewWriter(o.Out), dir: zk.RootPath, servers: o.Servers, printing: true,
		watches: map[watchKey]*watching{}, completeWithin: completeWithin}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// Exit codes, the same as zkCli.sh's.
const (
	exitOK      = 0
	exitFailed  = 1
	exitUnknown = 127
)

// failure is an error whose text, one of zkCli.sh's, is printed unchanged.
type failure string

func (f failure) Error() string { return string(f) }

// usage is the error of a command with wrong arguments.
type usage struct{ of *command }

func (u usage) Error() string { return u.of.usage() }

// unknown is the error of a line that does not begin with a command.
type unknown struct{ name string }

func (u unknown) Error() string { return "Command not found: " + cli.Visible(u.name) }

// Run runs a line and returns the exit code of its command. A line without a command keeps
// the last exit code.
func (s *Shell) Run(ctx context.Context, line string) int {
	if text := strings.TrimLeft(line, blanks); text == "" || text[0] == '#' {
		return s.code
	}
	fields := Split(line)
	s.history = append(s.history, line)
	return s.Do(ctx, fields)
}

// Do runs a command that is already split into fields.
func (s *Shell) Do(ctx context.Context, fields []string) int {
	err := s.do(ctx, fields)
	s.printEvents()
	s.flush()
	if s.left {
		return s.code // as in zkCli.sh, the code of the previous command stays
	}
	s.code = exitOK
	if err != nil {
		if s.block != nil && s.block.wrong == nil {
			s.block.wrong = err
		}
		s.code = exitFailed
		if errors.As(err, new(unknown)) {
			s.code = exitUnknown
		}
		s.complain(err)
	}
	return s.code
}

func (s *Shell) do(ctx context.Context, fields []string) error {
	if len(fields) == 0 {
		return nil
	}
	c := s.find(fields[0])
	if c == nil {
		return unknown{fields[0]}
	}
	in, err := c.read(fields[1:])
	if err != nil {
		return err
	}
	if len(in.args) < c.least || c.most >= 0 && len(in.args) > c.most {
		return usage{c}
	}
	if s.block != nil && !c.inMulti {
		return s.block.refuse(c.name)
	}
	return c.run(ctx, s, in)
}

// Left reports whether quit was called.
func (s *Shell) Left() bool { return s.left }

// complain prints why a command has failed.
func (s *Shell) complain(err error) {
	text := s.paint(red, s.reason(err))
	if near := s.nearest(err); near != "" && s.options.Person {
		text += "\n" + near
	}
	s.say(text)
}

// reason returns the text of an error.
func (s *Shell) reason(err error) string {
	var request *client.Error
	doubt := ""
	if errors.As(err, &request) && request.Outcome == client.Unknown {
		doubt = ": the write may have happened or not"
	}
	switch {
	case errors.Is(err, context.Canceled):
		return "interrupted" + doubt
	case errors.Is(err, context.DeadlineExceeded) && request != nil:
		return fmt.Sprintf("no answer within %v", s.options.Timeout) + doubt
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("no session within %v", s.options.Timeout) + cli.VisibleText(strings.TrimPrefix(err.Error(), context.DeadlineExceeded.Error()))
	}
	text := err.Error()
	if _, why, found := strings.Cut(text, zk.ErrBadArguments.Error()+": "); found {
		text = why
	}
	return cli.VisibleText(text)
}

// say prints a line that is not part of an answer.
func (s *Shell) say(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.out.Flush()
	fmt.Fprintln(s.options.Err, text)
}

// remark prints a remark if a person types the lines.
func (s *Shell) remark(format string, args ...any) {
	if s.options.Person {
		s.say(s.paint(faint, fmt.Sprintf(format, args...)))
	}
}

// print prints a part of an answer.
func (s *Shell) print(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = s.out.WriteString(text) // flush returns the error
}

func (s *Shell) println(text string) { s.print(text + "\n") }

func (s *Shell) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.out.Flush() // if the reader is gone, SIGPIPE ends the process
}

// text returns data as it is printed: for a person, without control characters.
func (s *Shell) text(data []byte) string {
	if s.options.Person {
		return cli.VisibleText(string(data))
	}
	return string(data)
}

// Colors, as SGR parameters of ECMA-48.
const (
	red   = "31"
	cyan  = "36"
	faint = "2"
)

func (s *Shell) paint(color, text string) string {
	if !s.options.Color {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}
