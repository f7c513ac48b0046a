package supervise

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/conclave-project/conclave/clock"
)

// Supervisor and guardian communicate over two pipes, in JSON. The end of the supervisor's
// pipe means that the supervisor is dead. The time until which the leadership is proved is
// in a page of shared memory.

// linkVersion is raised with every change of the messages.
const linkVersion = 2

// octets are bytes that need not be UTF-8, as JSON would have strings: paths, arguments,
// an environment and shell commands.
type octets string

func (o octets) MarshalText() ([]byte, error) {
	return base64.StdEncoding.AppendEncode(nil, []byte(o)), nil
}

func (o *octets) UnmarshalText(text []byte) error {
	decoded, err := base64.StdEncoding.AppendDecode(nil, text)
	*o = octets(decoded)
	return err
}

// each converts every string of a slice.
func each[To, From ~string](all []From) []To {
	converted := make([]To, len(all))
	for i, one := range all {
		converted[i] = To(one)
	}
	return converted
}

// message is what the supervisor tells the guardian. Exactly one field is set.
type message struct {
	Start *startOrder
	// Signal is passed on to the command's process group.
	Signal int
	Stop   *stopOrder
	// Shorter: the times in the page were moved earlier. The message may be dropped when
	// too many are waiting, because the guardian reads the page after each message anyway.
	Shorter bool
}

// startOrder is always the first message.
type startOrder struct {
	// Version is the supervisor's linkVersion. If the guardian is started from this
	// program's path, another version may have been installed there since.
	Version int

	Path  octets
	Args  []octets
	Env   []octets
	Dir   octets
	Locks int // how many lock files follow the pipes
	Grace time.Duration
	Hooks hooks
}

// hooks are shell commands to run around the command.
type hooks struct {
	Elected, Lost octets        // "" for none
	Limit         time.Duration // for each hook
}

// leaseTimes says until when the leadership is proved.
type leaseTimes struct {
	End      clock.Instant // when to tell the command to end
	Deadline clock.Instant // when none of its processes may be left
}

// killAt returns when the remaining processes are killed: a quarter of the grace is left
// for the kernel to end them.
func (l leaseTimes) killAt() clock.Instant {
	return l.Deadline.Add(-l.Deadline.Sub(l.End) / 4)
}

// stopOrder says how to end the command, and why; the reason is for the OnLost hook.
type stopOrder struct {
	Signal int
	Grace  time.Duration
	Reason string
}

// status is what the guardian tells the supervisor.
type status struct {
	// Begun: from now on OnLost must be run when this leadership ends.
	Begun bool
	// Started is the process id of a hook or of the command.
	Started int
	// Losing: the command has gone and the guardian is about to run OnLost. The supervisor
	// does not run it, whatever happens to the guardian.
	Losing bool
	// Remark is a failure of a hook that does not change anything else.
	Remark string
	// Gone: no process of the command or the hooks is left. Code is the exit code of the
	// command.
	Gone bool
	Code int
	// Failed, set together with Gone, says why the command was not started. Code is then
	// the supervisor's exit code if it does not try again. Hook: the failure is that of
	// OnElected.
	Failed string
	Hook   bool
}

// sender returns a function that sends values to the other process.
func sender[T any](to io.Writer) func(T) error {
	encoder := json.NewEncoder(to)
	return func(value T) error {
		if err := encoder.Encode(value); err != nil {
			return fmt.Errorf("supervise: tell the other process: %w", err)
		}
		return nil
	}
}

// receive forwards what the other process sends, and closes the channel when the pipe ends
// or cannot be decoded.
func receive[T any](from io.Reader, to chan<- T) {
	defer close(to)
	for decoder := json.NewDecoder(from); ; {
		var value T
		if decoder.Decode(&value) != nil {
			return
		}
		to <- value
	}
}
