package lostupdate

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"time"
)

// ErrStale is the fenced register's answer to an old token.
var ErrStale = errors.New("lostupdate: the token is too old")

// think is the time that a leader takes between reading and writing.
const think = time.Millisecond

// Worker is a leader's connection to the registers. One goroutine uses it.
type Worker struct {
	conn    net.Conn
	answers *bufio.Reader
	name    uint64 // random: updates of two workers never share an id
	turns   int
}

// Dial connects to the registers.
func Dial(addr string) (*Worker, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("lostupdate: %w", err)
	}
	return &Worker{conn: c, answers: bufio.NewReader(c), name: rand.Uint64()}, nil
}

// Close ends the connection.
func (w *Worker) Close() error { return w.conn.Close() }

// Lead updates all registers again and again for as long as holds reports that
// the process leads. Token zero leaves out the fenced register, which a lock
// without tokens cannot use. ErrStale means that another process leads.
func (w *Worker) Lead(token uint64, holds func() bool) error {
	for holds() {
		if err := w.Turn(token, holds); err != nil {
			return err
		}
	}
	return nil
}

// Turn is one turn: read, think, write. It calls holds before the write to the checked register.
func (w *Worker) Turn(token uint64, holds func() bool) error {
	w.turns++
	id := fmt.Sprintf("%x.%d", w.name, w.turns)
	read := map[string]string{}
	for _, name := range Registers {
		if name == Fenced && token == 0 {
			continue
		}
		value, err := w.ask("read %s %d", name, token)
		if err != nil {
			return err
		}
		read[name] = strings.TrimPrefix(value, "value ")
	}
	time.Sleep(think)
	if _, err := w.ask("write %s %d %s %s", Naive, token, id, read[Naive]); err != nil {
		return err
	}
	if holds() {
		if _, err := w.ask("write %s %d %s %s", Checked, token, id, read[Checked]); err != nil {
			return err
		}
	}
	if token == 0 {
		return nil
	}
	_, err := w.ask("write %s %d %s %s", Fenced, token, id, read[Fenced])
	return err
}

// ask sends a line and returns the answer to it.
func (w *Worker) ask(format string, args ...any) (string, error) {
	if _, err := fmt.Fprintf(w.conn, format+"\n", args...); err != nil {
		return "", fmt.Errorf("lostupdate: %w", err)
	}
	line, err := w.answers.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("lostupdate: %w", err)
	}
	line = strings.TrimSpace(line)
	if line == "stale" {
		return "", ErrStale
	}
	if strings.HasPrefix(line, "error ") {
		return "", errors.New("lostupdate: the register says: " + line)
	}
	return line, nil
}
