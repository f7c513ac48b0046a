package gcs

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/record"
)

// errNotOurs is returned for an object that another program has written.
var errNotOurs = errors.New("the object is not of an election; use a prefix of its own")

// errNoGeneration is returned for an answer that does not come from the service.
var errNoGeneration = errors.New("the store gave no generation; it cannot be elected on")

// statusError is an answer whose status is not success.
type statusError struct {
	status          int
	reason, message string // as the service says; reason is empty for a plain text
}

// textBytesMax is how much of a plain-text answer is shown.
const textBytesMax = 200

// newStatusError reads the service's error: JSON, or a plain text if the content of an
// object was requested.
func newStatusError(status int, body []byte) *statusError {
	var said struct {
		Error struct {
			Message string `json:"message"`
			Errors  []struct {
				Reason string `json:"reason"`
			} `json:"errors"`
		} `json:"error"`
	}
	e := &statusError{status: status}
	if json.Unmarshal(body, &said) == nil {
		e.message = said.Error.Message
		if len(said.Error.Errors) > 0 {
			e.reason = said.Error.Errors[0].Reason
		}
		return e
	}
	text, _, _ := strings.Cut(strings.TrimSpace(string(body[:min(len(body), textBytesMax)])), "\n")
	e.message = strings.ToValidUTF8(text, "?")
	return e
}

func (e *statusError) Error() string {
	text := fmt.Sprintf("%d %s", e.status, cmp.Or(e.reason, http.StatusText(e.status)))
	if e.message != "" && e.message != http.StatusText(e.status) {
		text += ": " + e.message
	}
	return text
}

// isMissing reports whether the object does not exist; the bucket may exist.
func isMissing(err error) bool {
	var e *statusError
	return errors.As(err, &e) && e.status == http.StatusNotFound && !strings.Contains(e.message, "bucket does not exist")
}

// isRefused reports whether a condition did not hold.
func isRefused(err error) bool {
	var e *statusError
	return errors.As(err, &e) && (e.status == http.StatusPreconditionFailed ||
		e.status == http.StatusNotFound && strings.Contains(e.message, "No such object"))
}

// isLimited reports whether the service refused a request because there were too many.
func isLimited(err error) bool {
	var e *statusError
	return errors.As(err, &e) && (e.status == http.StatusTooManyRequests ||
		e.status == http.StatusForbidden && (e.reason == "rateLimitExceeded" || e.reason == "userRateLimitExceeded"))
}

// limitedError is returned for a write that was refused for as long as it could wait
// (gcs-G4). For package record it is a NotYetError: nothing was written.
type limitedError struct {
	error
	after time.Duration
}

func (e limitedError) Unwrap() error { return e.error }

// As lets errors.As find a record.NotYetError.
func (e limitedError) As(target any) bool {
	notYet, ok := target.(**record.NotYetError)
	if ok {
		*notYet = &record.NotYetError{After: e.after}
	}
	return ok
}

// explain says what was being done, and marks final errors. Unknown errors (5xx, time-outs)
// count as temporary; a write that ended with one may or may not have been carried out.
func (s *store) explain(what, key string, err error) error {
	if what == "put" && isRefused(err) {
		err = record.ErrConflict
	}
	err = fmt.Errorf("%s %s in bucket %q: %w", what, key, s.options.Bucket, err)
	var answer *statusError
	var denied *oauth2.RetrieveError
	switch {
	case errors.Is(err, errNotOurs), errors.Is(err, errNoGeneration):
		return election.Permanent(err)
	case isLimited(err):
		return fmt.Errorf("%w (an object takes about one write per second)", err)
	case errors.As(err, &answer):
		return answer.explain(err)
	case errors.As(err, &denied) && denied.Response != nil && denied.Response.StatusCode/100 == 4 && denied.Response.StatusCode != http.StatusTooManyRequests:
		return election.Permanent(fmt.Errorf("%w (%s)", err, hintCredentials))
	}
	return err
}

const hintCredentials = "name a valid key or configuration with GOOGLE_APPLICATION_CREDENTIALS, or log in with " +
	"gcloud auth application-default login"

// explain marks err as final if this answer, its cause, is.
func (e *statusError) explain(err error) error {
	switch {
	case e.status == http.StatusUnauthorized:
		return election.Permanent(fmt.Errorf("%w (%s)", err, hintCredentials))
	case e.reason == "retentionPolicyNotMet" || e.status == http.StatusForbidden && strings.Contains(e.message, "cannot be deleted or overwritten"):
		return election.Permanent(fmt.Errorf("%w (a bucket that forbids to replace objects, by a retention policy or a hold, "+
			"cannot be elected in: use another bucket)", err))
	case e.status == http.StatusForbidden:
		return election.Permanent(fmt.Errorf("%w (needed: storage.objects.get, create and delete, without which nothing can be "+
			"replaced, and list, without which a missing object looks forbidden; roles/storage.objectUser has them)", err))
	case e.status == http.StatusNotFound:
		return election.Permanent(fmt.Errorf("%w (make the bucket first)", err))
	case e.status == http.StatusBadRequest:
		return election.Permanent(err)
	}
	return err
}
