package secure

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	askMax       = 5 * time.Second // for one question
	answerMax    = 16 << 20        // bytes of one answer
	answerKeep   = time.Hour       // how long an answer is kept at most
	silenceKeep  = 5 * time.Second // how long one that does not answer well is not asked again
	answersMax   = 4096            // answers kept at a time
	ocspRequests = "application/ocsp-request"
)

// answer is what somebody has said, until it is to be asked again.
type answer struct {
	sync.Mutex // held while it is asked for
	says       verdict
	err        error // there is none, or none that counts
	until      time.Time
}

// ask returns what a URL says to a question, or at all if that is nil, of certificates of
// an issuer. Read makes sense of it, once, and returns when it ends to be true. What was
// said before counts until then; several that ask for the same wait for one answer, and
// no longer than it takes to get it.
func (r *revocation) ask(url string, question []byte, issuer *x509.Certificate, read func([]byte) (verdict, time.Time, error)) (verdict, error) {
	a := r.kept(url, question, issuer)
	a.Lock()
	defer a.Unlock()
	if time.Now().Before(a.until) {
		return a.says, a.err
	}
	content, err := fetch(url, question)
	if err == nil {
		a.says, a.until, err = read(content)
	}
	now := time.Now()
	if err != nil {
		a.says, a.err, a.until = nil, fmt.Errorf("%s: %w", url, err), now.Add(silenceKeep)
		return nil, a.err
	}
	a.err = nil
	if latest := now.Add(answerKeep); a.until.After(latest) {
		a.until = latest
	}
	return a.says, nil
}

// kept returns the place of an answer.
func (r *revocation) kept(url string, question []byte, issuer *x509.Certificate) *answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.answers == nil || len(r.answers) >= answersMax {
		r.answers = map[answerKey]*answer{}
	}
	key := answerKey{url, sha256.Sum256(question), sha256.Sum256(issuer.Raw)}
	if r.answers[key] == nil {
		r.answers[key] = &answer{}
	}
	return r.answers[key]
}

// answerKey is what was asked, and of whose certificates.
type answerKey struct {
	url              string
	question, issuer [sha256.Size]byte
}

// fetch gets a URL, or posts a question to it.
func fetch(url string, question []byte) ([]byte, error) {
	if !strings.HasPrefix(url, "http://") && !strings.HasPrefix(url, "https://") {
		return nil, fmt.Errorf("%s is no URL of http", url)
	}
	ctx, cancel := context.WithTimeout(context.Background(), askMax)
	defer cancel()
	method := http.MethodGet
	if question != nil {
		method = http.MethodPost
	}
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(question))
	if err != nil {
		return nil, err
	}
	if question != nil {
		request.Header.Set("Content-Type", ocspRequests)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers with %s", url, response.Status)
	}
	content, err := io.ReadAll(io.LimitReader(response.Body, answerMax+1))
	if err == nil && len(content) > answerMax {
		err = fmt.Errorf("%s answers with more than %d bytes", url, answerMax)
	}
	return content, err
}
