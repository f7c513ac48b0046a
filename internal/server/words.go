package server

import "strings"

// Words answers four-letter words: what an operator types into a fresh
// connection instead of a handshake.
type Words interface {
	// Known tells whether these four bytes are a word.
	Known(word string) bool
	// Answer is all that is sent before the connection closes.
	Answer(s *Server, word string) string
}

// isFourLetterWord tells whether the first bytes cannot be the length of a
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
		answer = words.Answer(c.server, word)
	}
	c.socket.Write([]byte(answer))
}

// WordEnabled tells whether a word is on the whitelist. srvr always is.
func (c *Config) WordEnabled(word string) bool {
	if word == "srvr" {
		return true
	}
	for _, w := range c.FourLetterWords {
		if w == "*" || w == word {
			return true
		}
	}
	return false
}
