package supervise

import (
	"encoding/gob"
	"fmt"
	"io"
	"time"

	"github.com/conclave-project/conclave/clock"
)

// Supervisor and guardian talk over two pipes, in gob: arguments, environment and
// paths are bytes that need not be UTF-8. The end of the supervisor's pipe is its
// death. Until when the leadership is proved stands in a page of memory that they
// share.

// linkVersion counts the changes of what the two say.
const linkVersion = 1

// message is what the supervisor tells the guardian. Exactly one field is set.
type message struct {
	Start *startOrder
	// Signal is passed on to the command's process group.
	Signal int
	Stop   *stopOrder
	// Shorter: the page has an earlier time. One that is not sent because too many
	// messages wait is not needed, since the page is read after each message.
	Shorter bool
}

// startOrder is always the first message.
type startOrder struct {
	// Version is linkVersion of the supervisor. Where the guardian is started from the
	// path of this program, another version may stand there by now.
	Version int

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
	End      clock.Instant // tell the command to end
	Deadline clock.Instant // nothing of it may live
}

// killAt is when what still lives is killed: a quarter of the grace is left for
// the kernel to do it.
func (l leaseTimes) killAt() clock.Instant {
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
	Begun bool
	// Started is the process id of a hook or of the command.
	Started int
	// Losing: the command has gone and the hook is about to be told. Nobody
	// else needs to, whatever becomes of the guardian.
	Losing bool
	// Remark is what went wrong with a hook and changes nothing.
	Remark string
	// Gone: nothing of the command and the hooks lives any more. Code is the
	// exit code of the command.
	Gone bool
	Code int
	// Failed says, with Gone, why the command was not started, and Code what
	// the supervisor shall end with if it does not try again. Hook: it is about
	// OnElected.
	Failed string
	Hook   bool
}

// sender returns what tells the other process.
func sender[T any](to io.Writer) func(T) error {
	encoder := gob.NewEncoder(to)
	return func(value T) error {
		if err := encoder.Encode(value); err != nil {
			return fmt.Errorf("supervise: tell the other process: %w", err)
		}
		return nil
	}
}

// receive passes on what the other process says and closes the channel at its
// end. A broken peer is as good as dead.
func receive[T any](from io.Reader, to chan<- T) {
	defer close(to)
	for decoder := gob.NewDecoder(from); ; {
		var value T
		if decoder.Decode(&value) != nil {
			return
		}
		to <- value
	}
}
