package supervise

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/conclave-project/conclave/election"
)

// Supervisor and guardian talk over two pipes, one JSON object a line. The end
// of the supervisor's pipe is its death. Until when the leadership is proved
// stands in a page of memory that they share.

// message is what the supervisor tells the guardian. Exactly one field is set.
type message struct {
	Start *startOrder `json:",omitempty"`
	// Signal is passed on to the command's process group.
	Signal int        `json:",omitempty"`
	Stop   *stopOrder `json:",omitempty"`
	// Shorter: the page has an earlier time. One that is not sent because too many
	// messages wait is not needed, since the page is read after each message.
	Shorter bool `json:",omitempty"`
}

// startOrder is always the first message.
type startOrder struct {
	Path  string
	Args  []string
	Env   []string
	Dir   string
	Locks int // how many lock files follow the pipes
	Grace time.Duration
	Hooks hooks
}

// hooks are what to run around the command, as arguments of a shell.
type hooks struct {
	Elected, Lost string        // "" for none
	Limit         time.Duration // for each
}

// leaseTimes says until when the leadership is proved.
type leaseTimes struct {
	End      election.Instant // tell the command to end
	Deadline election.Instant // nothing of it may live
}

// killAt is when what still lives is killed: a quarter of the grace is left for
// the kernel to do it.
func (l leaseTimes) killAt() election.Instant {
	return l.Deadline.Add(-l.Deadline.Sub(l.End) / 4)
}

// stopOrder says how to end the command, and why, which is for the hook.
type stopOrder struct {
	Signal int
	Grace  time.Duration
	Reason string
}

// status is what the guardian tells the supervisor.
type status struct {
	// Begun: from now on the end of this leadership is told to the hook.
	Begun bool `json:",omitempty"`
	// Started is the process id of a hook or of the command.
	Started int `json:",omitempty"`
	// Losing: the command has gone and the hook is about to be told. Nobody
	// else needs to, whatever becomes of the guardian.
	Losing bool `json:",omitempty"`
	// Remark is what went wrong with a hook and changes nothing.
	Remark string `json:",omitempty"`
	// Gone: nothing of the command and the hooks lives any more. Code is the
	// exit code of the command.
	Gone bool `json:",omitempty"`
	Code int  `json:",omitempty"`
	// Failed says, with Gone, why the command was not started, and Code what
	// the supervisor shall end with. Hook: it was because of the hook, so the
	// next attempt may succeed.
	Failed string `json:",omitempty"`
	Hook   bool   `json:",omitempty"`
}

func send(w io.Writer, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("supervise: encode: %w", err)
	}
	if _, err := w.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("supervise: tell the other process: %w", err)
	}
	return nil
}

// receive passes on what the other process says and closes the channel at its
// end.
func receive[T any](r io.Reader, to chan<- T) {
	defer close(to)
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var value T
		if json.Unmarshal(line, &value) != nil {
			return // a broken peer is as good as dead
		}
		to <- value
	}
}
