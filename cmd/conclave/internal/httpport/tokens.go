package httpport

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Tokens are the secrets in a file, a line each. A port that requires them answers only
// requests that show one (httpport-H5). A file that changes is read again within a second; while
// it cannot be read, the old tokens stay valid. Methods are safe for concurrent use.
type Tokens struct {
	path string
	last atomic.Pointer[tokenSet]

	// looking is held while the file is looked at, by one request: the others do not wait for a
	// disk, and use the last tokens.
	looking sync.Mutex
	looked  time.Time // when the file was last looked at
	problem string    // why the file could not be read then, "" if it could
}

// tokenSet is what a file had when it was read.
type tokenSet struct {
	info  os.FileInfo
	sums  [][sha256.Size]byte
	first string
}

// Bounds of a file with tokens. A token is compared without any delay between attempts, so it
// must be too long to be guessed.
const (
	tokenBytesMin  = 16
	tokenBytesMax  = 1024
	tokensMax      = 100
	tokensBytesMax = 64 << 10
	tokensEvery    = time.Second // between two looks at the file
)

// TokenHeader is the header for a token if Authorization has something else.
const TokenHeader = "X-Conclave-Token"

// ReadTokens reads a file with tokens: 16 to 1,024 visible ASCII characters each. Empty lines and
// those that begin with # do not count.
func ReadTokens(path string) (*Tokens, error) {
	t := &Tokens{path: path}
	return t, t.read()
}

// read replaces the tokens by those of the file.
func (t *Tokens) read() error {
	if info, err := os.Stat(t.path); err == nil && !info.Mode().IsRegular() { // opening a pipe could take for ever
		return fmt.Errorf("%s is not a file", t.path)
	}
	file, err := os.Open(t.path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	content, err := io.ReadAll(io.LimitReader(file, tokensBytesMax+1))
	if err != nil {
		return err
	}
	if len(content) > tokensBytesMax {
		return fmt.Errorf("%s: a file with tokens has at most %d bytes", t.path, tokensBytesMax)
	}
	var all []string
	number := 0
	for line := range bytes.Lines(bytes.TrimPrefix(content, []byte("\ufeff"))) {
		number++
		token := string(bytes.TrimSpace(line))
		if token == "" || token[0] == '#' {
			continue
		}
		if len(token) < tokenBytesMin || len(token) > tokenBytesMax || strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
			return fmt.Errorf("%s:%d: a token has %d to %d visible ASCII characters: `openssl rand -hex 32` prints one", t.path, number, tokenBytesMin, tokenBytesMax)
		}
		all = append(all, token)
	}
	if len(all) == 0 || len(all) > tokensMax {
		return fmt.Errorf("%s has %d tokens: 1 to %d are allowed, a line each", t.path, len(all), tokensMax)
	}
	set := &tokenSet{info: info, first: all[0]}
	for _, token := range all {
		set.sums = append(set.sums, sha256.Sum256([]byte(token)))
	}
	t.last.Store(set)
	return nil
}

// First returns the token that this process shows to other servers, whose files should have it
// too. Of a nil Tokens it is empty.
func (t *Tokens) First() string {
	if t == nil {
		return ""
	}
	return t.last.Load().first
}

// fresh returns the tokens, read again if the file has changed, and why that failed if the log
// does not know.
func (t *Tokens) fresh(now time.Time) (sums [][sha256.Size]byte, news error) {
	last := t.last.Load()
	if !t.looking.TryLock() {
		return last.sums, nil
	}
	defer t.looking.Unlock()
	if now.Sub(t.looked) < tokensEvery {
		return last.sums, nil
	}
	t.looked = now
	info, err := os.Stat(t.path)
	if err == nil && (t.problem != "" || !os.SameFile(info, last.info) || info.Size() != last.info.Size() || !info.ModTime().Equal(last.info.ModTime())) {
		err = t.read()
	}
	before := t.problem
	if t.problem = ""; err != nil {
		if t.problem = err.Error(); t.problem != before {
			news = err
		}
	}
	return t.last.Load().sums, news
}

// shown returns the tokens that a request shows: as the bearer token or the password of HTTP
// Basic, whatever the user, or in TokenHeader.
func shown(r *http.Request) []string {
	all := slices.Clone(r.Header.Values(TokenHeader))
	if _, password, ok := r.BasicAuth(); ok {
		all = append(all, password)
	}
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		all = append(all, strings.TrimSpace(token))
	}
	return all
}

// valid reports whether one of the texts is one of the tokens. The time that it takes says
// nothing about which characters are right.
func valid(texts []string, sums [][sha256.Size]byte) bool {
	found := 0
	for _, text := range texts {
		sum := sha256.Sum256([]byte(text))
		for i := range sums {
			found |= subtle.ConstantTimeCompare(sum[:], sums[i][:])
		}
	}
	return found == 1
}

// Require makes the port refuse requests that show none of the tokens, except requests for the
// open paths. It is called before Serve; nil tokens change nothing.
func (p *Port) Require(tokens *Tokens, open ...string) { p.tokens, p.open = tokens, open }

const noToken = "this port needs a token of its server: Authorization: Bearer TOKEN, or the token as the password of any user"

// requiring wraps a handler: it gets only requests that show a token (httpport-H5).
func (p *Port) requiring(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if slices.Contains(p.open, r.URL.Path) {
			handler.ServeHTTP(w, r)
			return
		}
		sums, err := p.tokens.fresh(time.Now())
		if err != nil {
			p.logger.Error("tokens cannot be read, and those read before stay valid", "for", p.what, "error", err)
		}
		if valid(shown(r), sums) {
			handler.ServeHTTP(w, r)
			return
		}
		if count, tell := p.refused.Note(time.Since(began).Milliseconds()); tell {
			p.logger.Warn("a request without a valid token was refused", "for", p.what, "client", r.RemoteAddr, "refused", count)
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="conclave", charset="UTF-8"`)
		http.Error(w, noToken, http.StatusUnauthorized)
	})
}
