package secure

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ocsp"
)

// revocation asks whether certificates were revoked: of the responders that they name
// (ocsp), else of the lists that they name (crl). A certificate of which nobody says that
// it is good is refused, as Java refuses it.
type revocation struct {
	crl, ocsp bool

	mu      sync.Mutex
	answers map[string]*answer // by what was asked
}

// answer is what somebody has said, until it is to be asked again.
type answer struct {
	sync.Mutex
	bytes []byte
	err   error // there is none: nobody has answered
	until time.Time
}

const (
	askMax       = 5 * time.Second  // for one question
	answerMax    = 16 << 20         // bytes of one answer
	answerKeep   = time.Hour        // how long an answer is kept at most
	silenceKeep  = 5 * time.Second  // how long one that does not answer is not asked again
	answersMax   = 4096             // answers kept at a time
	clockSkew    = 15 * time.Minute // between us and those who answer, Java's
	ocspRequests = "application/ocsp-request"
)

// check looks at all certificates of a chain but the authority at its end.
func (r *revocation) check(chain []*x509.Certificate) error {
	for i := range len(chain) - 1 {
		if err := r.one(chain[i], chain[i+1]); err != nil {
			return fmt.Errorf("the certificate of %s: %w", subject(chain[i]), err)
		}
	}
	return nil
}

var errRevoked = errors.New("it was revoked")

func (r *revocation) one(c, issuer *x509.Certificate) error {
	var errs []error
	if r.ocsp {
		for _, url := range c.OCSPServer {
			err := r.askResponder(url, c, issuer)
			if err == nil || errors.Is(err, errRevoked) {
				return err
			}
			errs = append(errs, err)
		}
	}
	if r.crl {
		for _, url := range c.CRLDistributionPoints {
			err := r.readList(url, c, issuer)
			if err == nil || errors.Is(err, errRevoked) {
				return err
			}
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		return errors.New("it names no list of revoked certificates and no responder that is asked")
	}
	return fmt.Errorf("neither list nor responder answers: %w", errors.Join(errs...))
}

// askResponder asks by OCSP (RFC 6960).
func (r *revocation) askResponder(url string, c, issuer *x509.Certificate) error {
	question, err := ocsp.CreateRequest(c, issuer, nil)
	if err != nil {
		return err
	}
	return r.ask(url, question, func(content []byte) (time.Time, error) {
		said, err := ocsp.ParseResponseForCert(content, c, issuer)
		switch {
		case err != nil:
			return time.Time{}, err
		case said.Certificate != nil && !answersFor(said.Certificate, issuer):
			return time.Time{}, errors.New("the answer is signed by one that may not sign answers")
		}
		until := said.NextUpdate
		if until.IsZero() {
			until = said.ThisUpdate.Add(clockSkew) // there is a newer answer at any time
		}
		if err := inTime(said.ThisUpdate, until); err != nil {
			return time.Time{}, fmt.Errorf("the answer %w", err)
		}
		switch said.Status {
		case ocsp.Good:
			return until, nil
		case ocsp.Revoked:
			return until, errRevoked
		}
		return time.Time{}, errors.New("the responder does not know it")
	})
}

// inTime refuses what is not true yet, or no longer: anybody on the way can play back
// what was true once.
func inTime(from, until time.Time) error {
	now := time.Now()
	switch {
	case now.Before(from.Add(-clockSkew)):
		return fmt.Errorf("is of %v, which is still to come", from)
	case now.After(until):
		return errors.New("is out of date")
	}
	return nil
}

// answersFor reports whether a certificate may sign answers for an issuer, which has
// signed it: it is the issuer's own, or made for that (RFC 6960, section 4.2.2.2).
func answersFor(c, issuer *x509.Certificate) bool {
	now := time.Now()
	return c.Equal(issuer) || slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageOCSPSigning) && now.After(c.NotBefore) && now.Before(c.NotAfter)
}

// readList looks into a list (RFC 5280, section 5).
func (r *revocation) readList(url string, c, issuer *x509.Certificate) error {
	return r.ask(url, nil, func(content []byte) (time.Time, error) {
		list, err := x509.ParseRevocationList(content)
		if err != nil {
			return time.Time{}, err
		}
		if err := inTime(list.ThisUpdate, list.NextUpdate); err != nil {
			return time.Time{}, fmt.Errorf("the list %w", err)
		}
		if err := list.CheckSignatureFrom(issuer); err != nil {
			return time.Time{}, err
		}
		scope, err := scopeOf(list)
		if err != nil {
			return time.Time{}, err
		}
		if !scope.covers(c) {
			return time.Time{}, errors.New("the list is one of other certificates")
		}
		for _, entry := range list.RevokedCertificateEntries {
			if entry.SerialNumber.Cmp(c.SerialNumber) == 0 {
				return list.NextUpdate, errRevoked
			}
		}
		return list.NextUpdate, nil
	})
}

// ask gives what a URL says to read, which returns when it ends to be true. What was said
// before counts until then; several that ask for the same wait for one answer.
func (r *revocation) ask(url string, question []byte, read func([]byte) (time.Time, error)) error {
	a := r.kept(url, question)
	a.Lock()
	defer a.Unlock()
	if time.Now().Before(a.until) {
		if a.err != nil {
			return a.err
		}
		_, err := read(a.bytes)
		return err
	}
	content, err := fetch(url, question)
	if a.err = err; err != nil {
		a.until = time.Now().Add(silenceKeep)
		return err
	}
	until, err := read(content)
	if err != nil && !errors.Is(err, errRevoked) {
		return fmt.Errorf("%s: %w", url, err)
	}
	if latest := time.Now().Add(answerKeep); until.IsZero() || until.After(latest) {
		until = latest
	}
	a.bytes, a.until = content, until
	return err
}

// kept returns the place of an answer.
func (r *revocation) kept(url string, question []byte) *answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.answers == nil || len(r.answers) >= answersMax {
		r.answers = map[string]*answer{}
	}
	sum := sha256.Sum256(question)
	key := url + "\x00" + string(sum[:])
	if r.answers[key] == nil {
		r.answers[key] = &answer{}
	}
	return r.answers[key]
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
