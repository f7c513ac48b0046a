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
	answerKeep   = time.Hour       // the longest time that an answer is kept
	silenceKeep  = 5 * time.Second // how long a failed source is not asked again
	answersMax   = 4096            // answers kept at a time
	ocspRequests = "application/ocsp-request"
)

// answer is a cached answer, until it expires.
type answer struct {
	sync.Mutex // held during the request
	says       verdict
	err        error // there is no valid answer
	until      time.Time
}

// ask returns the answer of a URL to a question about certificates of an issuer, or the
// content of the URL if the question is nil. read parses an answer, once, and returns
// when it expires. Until then the cached answer is used. Several callers with the same
// question wait for one request.
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

// kept returns the cache slot of an answer.
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

// answerKey identifies a question: what was asked, and about whose certificates.
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
