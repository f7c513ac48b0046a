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

// Options are what a shell is given.
type Options struct {
	Out, Err io.Writer // answers; all else, which zkCli.sh writes there, too

	// Open begins a session with servers, "" for those that the shell was told first, and
	// does not wait for one.
	Open func(servers string) (*client.Client, error)

	Servers string        // as prompts and errors show them
	Timeout time.Duration // how long a command waits for each answer
	Version string        // what the command version prints

	Changed func() // called when Prompt would return another text; nil for nobody

	Person bool // types the lines: Safe is for the data, too, and remarks are made
	Color  bool // errors and events may have colors
}

// Shell runs lines. Its methods are called by one goroutine, but for Prompt.
type Shell struct {
	options  Options
	commands []command
	life     context.Context
	end      context.CancelFunc
	group    sync.WaitGroup // what follows sessions and watches

	history []string // each line that was run
	block   *block   // of multi, while one is open; written with mu
	code    int      // of the last command
	left    bool     // quit was called

	completeWithin time.Duration
	unpaged        *client.Client // its server lists in no pages; nil for none

	mu          sync.Mutex // guards all below
	out         *bufio.Writer
	conn        *client.Client // nil: none was opened, or it was closed
	dir         string         // of paths that do not begin with a slash
	servers     string
	printing    bool // of the events of zkCli.sh's watches
	probing     bool // the server is asked for what may end the connection
	credentials []client.Credential
	watches     map[watchKey]*watching
	told        [toldMax]zk.Event // the last that were printed
	toldNext    int
}

// New returns a shell without a session: Connect opens one.
func New(o Options) *Shell {
	s := &Shell{options: o, commands: table(), out: bufio.NewWriter(o.Out), dir: zk.RootPath, servers: o.Servers, printing: true,
		watches: map[watchKey]*watching{}, completeWithin: completeWithin}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// Exit codes, those of zkCli.sh.
const (
	exitOK      = 0
	exitFailed  = 1
	exitUnknown = 127
)

// failure is an error that is printed as it is: one of those that zkCli.sh prints.
type failure string

func (f failure) Error() string { return string(f) }

// usage is the error of a command that is called in a wrong way.
type usage struct{ of *command }

func (u usage) Error() string { return u.of.usage() }

// unknown is the error of a line that begins with no command.
type unknown struct{ name string }

func (u unknown) Error() string { return "Command not found: " + cli.Visible(u.name) }

// Run runs a line, and returns the exit code of its command; one without a command changes
// nothing.
func (s *Shell) Run(ctx context.Context, line string) int {
	if text := strings.TrimLeft(line, blanks); text == "" || text[0] == '#' {
		return s.code
	}
	fields := Split(line)
	s.history = append(s.history, line)
	return s.Do(ctx, fields)
}

// Do runs a command that is split already.
func (s *Shell) Do(ctx context.Context, fields []string) int {
	err := s.do(ctx, fields)
	s.printEvents()
	s.flush()
	if s.left {
		return s.code // zkCli.sh ends with that of the command before
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

// reason is the text of an error.
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

// say prints a line that is no answer.
func (s *Shell) say(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.out.Flush()
	fmt.Fprintln(s.options.Err, text)
}

// remark says something to a person.
func (s *Shell) remark(format string, args ...any) {
	if s.options.Person {
		s.say(s.paint(faint, fmt.Sprintf(format, args...)))
	}
}

// print prints a part of an answer.
func (s *Shell) print(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = s.out.WriteString(text) // flush has the error, if one has to know
}

func (s *Shell) println(text string) { s.print(text + "\n") }

func (s *Shell) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.out.Flush() // a reader that has gone: SIGPIPE ends the process
}

// text is data for the reader: a person is shown no control characters.
func (s *Shell) text(data []byte) string {
	if s.options.Person {
		return cli.VisibleText(string(data))
	}
	return string(data)
}

// The colors, as SGR parameters of ECMA-48.
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
