package server

import (
	"encoding/binary"
	"strings"
)

// Words answers four-letter words: what an operator types into a fresh
// connection instead of a handshake.
type Words interface {
	// Known reports whether these four bytes are a word.
	Known(word string) bool
	// Answer is all that is sent before the connection closes.
	Answer(s *Server, word string) string
}

// isFourLetterWord reports whether the first bytes cannot be the length of a
// first frame but are lower-case letters.
func isFourLetterWord(b []byte) bool {
	for _, c := range b[:4] {
		if c < 'a' || c > 'z' {
			return false
		}
	}
	return true
}

// fourLetterWord returns the word that came instead of a handshake.
func (c *conn) fourLetterWord() (string, bool) {
	b := c.input.partial
	if len(b) < 4 || !isFourLetterWord(b) {
		return "", false
	}
	return string(b[:4]), true
}

// answerWord answers a word, if it is one and enabled.
func (c *conn) answerWord(word string) {
	words := c.server.cfg.Words
	if words == nil || !words.Known(word) {
		return
	}
	c.received()
	answer := strings.TrimSpace(word) + " is not executed because it is not in the whitelist.\n"
	if c.server.cfg.WordEnabled(word) {
		if word == "stmk" && !c.readTraceMask() {
			return
		}
		answer = words.Answer(c.server, word)
	}
	c.socket.Write([]byte(answer))
}

// readTraceMask takes the number that follows the word stmk, eight bytes.
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
	c.server.traceMask.Store(int64(binary.BigEndian.Uint64(argument)))
	return true
}

// traceMaskDefault is that of a Java server.
const traceMaskDefault = 306

// TraceMask is what the word stmk has set, or Apache's default. Nothing is traced
// by it.
func (s *Server) TraceMask() int64 { return s.traceMask.Load() }

// WordEnabled reports whether a word is on the whitelist. srvr always is, and isro
// where a client in read-only mode looks for a server that writes.
func (c *Config) WordEnabled(word string) bool {
	if word == "srvr" || word == "isro" && c.ReadOnlyMode {
		return true
	}
	for _, w := range c.FourLetterWords {
		if w == "*" || w == word {
			return true
		}
	}
	return false
}
