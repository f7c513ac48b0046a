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
// of the supervisor's pipe is its death.

// message is what the supervisor tells the guardian. Exactly one field is set.
type message struct {
	Start *startOrder `json:",omitempty"`
	Lease *leaseTimes `json:",omitempty"`
	// Signal is passed on to the command's process group.
	Signal int        `json:",omitempty"`
	Stop   *stopOrder `json:",omitempty"`
}

// startOrder is always the first message.
type startOrder struct {
	Path  string
	Args  []string
	Env   []string
	Dir   string
	Locks int // how many lock files follow the pipes
	Grace time.Duration
	Lease leaseTimes
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

// stopOrder says how to end the command.
type stopOrder struct {
	Signal int
	Grace  time.Duration
}

// status is what the guardian tells the supervisor.
type status struct {
	// Started is the process id of the command.
	Started int `json:",omitempty"`
	// Failed says why the command could not be started, with the exit code.
	Failed string `json:",omitempty"`
	// Gone: nothing of the command lives any more. Code is its exit code.
	Gone bool `json:",omitempty"`
	Code int  `json:",omitempty"`
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
