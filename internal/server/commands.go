package server

import (
	"encoding/binary"
	"io"
	"strings"
	"time"
)

// Commands answers the four-letter words: the commands that an operator sends on a new
// connection instead of a handshake.
type Commands interface {
	// Known reports whether there is a command of this name.
	Known(name string) bool
	// Answer returns everything that is sent before the connection closes.
	Answer(s *Server, name string) string
}

// isFourLetterWord reports whether the first bytes are lower-case letters, and so cannot be the
// length of a first frame.
func isFourLetterWord(b []byte) bool {
	for _, c := range b[:4] {
		if c < 'a' || c > 'z' {
			return false
		}
	}
	return true
}

// fourLetterWord returns the command that was received instead of a handshake.
func (c *conn) fourLetterWord() (string, bool) {
	b := c.input.partial
	if len(b) < 4 || !isFourLetterWord(b) {
		return "", false
	}
	return string(b[:4]), true
}

// answerCommand answers a command if it is known and enabled.
func (c *conn) answerCommand(name string) {
	commands := c.server.cfg.Commands
	if commands == nil || !commands.Known(name) {
		return
	}
	c.received()
	answer := strings.TrimSpace(name) + " is not executed because it is not in the whitelist.\n"
	if c.server.cfg.CommandEnabled(name) {
		if name == "stmk" && !c.readTraceMask() {
			return
		}
		var release func()
		answer, release = c.server.Report(name, func() string { return commands.Answer(c.server, name) })
		defer release()
	}
	if !c.tell(answer) {
		reset(c.socket) // an incomplete answer must not look complete
		return
	}
	c.told()
	if half, ok := c.socket.(halfCloser); ok {
		half.CloseWrite()
	}
}

// answerBytesSecond is how many bytes of an answer a client must accept per second, after its
// grace: others wait for the next report of the same kind.
const answerBytesSecond = 4 << 20

// tell sends an answer piece by piece: many clients share the answer, and writing it at once
// would copy all of it for each of them.
func (c *conn) tell(answer string) bool {
	_ = c.socket.SetWriteDeadline(time.Now().Add(c.server.closeGrace + time.Duration(len(answer))*time.Second/answerBytesSecond))
	_, err := io.Copy(struct{ io.Writer }{c.socket}, struct{ io.Reader }{strings.NewReader(answer)})
	return err == nil
}

// readTraceMask reads the number that follows stmk, eight bytes.
func (c *conn) readTraceMask() bool {
	argument := append([]byte(nil), c.input.partial[4:]...)
	for len(argument) < 8 {
		var more [8]byte
		n, err := c.socket.Read(more[:])
		if err != nil {
			return false
		}
		argument = append(argument, more[:n]...)
	}
	c.server.SetTraceMask(int64(binary.BigEndian.Uint64(argument)))
	return true
}

// traceMaskDefault is the default of a Java server.
const traceMaskDefault = 306

// TraceMask returns the number that stmk has set, or Apache's default. It has no effect.
func (s *Server) TraceMask() int64 { return s.traceMask.Load() }

// SetTraceMask sets that number.
func (s *Server) SetTraceMask(mask int64) { s.traceMask.Store(mask) }

// CommandEnabled reports whether a four-letter word is on the whitelist. srvr always is, and so
// is isro in read-only mode, where clients look for a server that accepts writes.
func (c *Config) CommandEnabled(name string) bool {
	if name == "srvr" || name == "isro" && c.ReadOnlyMode {
		return true
	}
	for _, enabled := range c.FourLetterWords {
		if enabled == "*" || enabled == name {
			return true
		}
	}
	return false
}
