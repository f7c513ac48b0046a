package dynamodb

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/logging"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/record"
)

// answer is a service that gives the same answer to every call and counts them.
func answer(t *testing.T, answer func(request []byte) (status int, body string)) (*store, *atomic.Int64) {
	t.Helper()
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		request, _ := io.ReadAll(r.Body)
		status, body := answer(request)
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	client := dynamodb.New(dynamodb.Options{Region: "eu-central-1", BaseEndpoint: &server.URL, Logger: logging.Nop{},
		Credentials: aws.AnonymousCredentials{}})
	s, err := newStore(client, Options{Table: "t"})
	if err != nil {
		t.Fatal(err)
	}
	return s, &calls
}

func failing(status int, code string) func([]byte) (int, string) {
	return func([]byte) (int, string) {
		return status, `{"__type":"com.amazonaws.dynamodb.v20120810#` + code + `"}`
	}
}

// TestErrorsAreTriedOnceAndToldApart: a conflict must not be taken for a failure, a
// failure for a conflict, or a temporary error for a permanent one.
func TestErrorsAreTriedOnceAndToldApart(t *testing.T) {
	for _, test := range []struct {
		status              int
		code                string
		conflict, permanent bool
	}{
		{400, "ConditionalCheckFailedException", true, false},
		{400, "ResourceNotFoundException", false, true},
		{400, "AccessDeniedException", false, true},
		{400, "UnrecognizedClientException", false, true},
		{400, "InvalidSignatureException", false, true},
		{400, "ValidationException", false, true},
		{400, "ProvisionedThroughputExceededException", false, false},
		{400, "ThrottlingException", false, false},
		{400, "RequestLimitExceeded", false, false},
		{400, "ExpiredTokenException", false, false},
		{500, "InternalServerError", false, false},
		{503, "ServiceUnavailable", false, false},
	} {
		s, calls := answer(t, failing(test.status, test.code))
		_, err := s.Write(t.Context(), "e", record.Record{}, "v")
		if err == nil || errors.Is(err, record.ErrConflict) != test.conflict ||
			errors.Is(err, election.ErrPermanent) != test.permanent {
			t.Errorf("%s: %v", test.code, err)
		}
		if calls.Load() != 1 {
			t.Errorf("%s: %d requests", test.code, calls.Load())
		}
		if _, _, err := s.Read(t.Context(), "e"); err == nil || calls.Load() != 2 {
			t.Errorf("%s: read: %v, %d requests", test.code, err, calls.Load())
		}
	}
}

// TestWrongClockIsNoWrongKey: the next request may be signed with a corrected time.
func TestWrongClockIsNoWrongKey(t *testing.T) {
	for message, permanent := range map[string]bool{
		"The request signature we calculated does not match the signature you provided.":   true,
		"Signature expired: 20261130T100000Z is now earlier than 20261130T101000Z":         false,
		"Signature not yet current: 20261130T100000Z is still later than 20261130T094500Z": false,
	} {
		s, _ := answer(t, func([]byte) (int, string) {
			return 400, `{"__type":"com.amazon.coral.service#InvalidSignatureException","message":"` + message + `"}`
		})
		if _, err := s.Write(t.Context(), "e", record.Record{}, "v"); err == nil || errors.Is(err, election.ErrPermanent) != permanent {
			t.Errorf("%s: %v", message, err)
		}
	}
}

// TestWriteThatMeetsATransactionIsTriedAgain: it was refused before anything was
// written, so both tries count as one attempt.
func TestWriteThatMeetsATransactionIsTriedAgain(t *testing.T) {
	met := 0
	s, calls := answer(t, func([]byte) (int, string) {
		if met++; met <= 3 {
			return failing(400, "TransactionConflictException")(nil)
		}
		return 200, "{}"
	})
	if _, err := s.Write(t.Context(), "e", record.Record{}, "v"); err != nil || calls.Load() != 4 {
		t.Errorf("%d requests: %v", calls.Load(), err)
	}
	s, calls = answer(t, failing(400, "TransactionConflictException"))
	if _, err := s.Write(t.Context(), "e", record.Record{}, "v"); err == nil || errors.Is(err, record.ErrConflict) {
		t.Errorf("an item that is never free: %v after %d requests", err, calls.Load())
	}
}

// TestConflictWithItselfIsASuccess (dynamodb-D3): a service that carries out a write
// and repeats it by itself answers like this.
func TestConflictWithItselfIsASuccess(t *testing.T) {
	item := `{}`
	s, _ := answer(t, func(request []byte) (int, string) {
		var input struct{ Item json.RawMessage }
		if err := json.Unmarshal(request, &input); err != nil {
			t.Error(err)
		}
		if item == "{}" {
			item = string(input.Item)
		}
		return 400, `{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException","Item":` + item + `}`
	})
	if _, err := s.Write(t.Context(), "e", record.Record{}, "v"); err != nil {
		t.Errorf("the item is the one that was written: %v", err)
	}
	if _, err := s.Write(t.Context(), "e", record.Record{}, "v"); !errors.Is(err, record.ErrConflict) {
		t.Errorf("the item is another's: %v", err)
	}
}

func TestItemKeepsTheRecord(t *testing.T) {
	s, err := newStore(nil, Options{Table: "t"})
	if err != nil {
		t.Fatal(err)
	}
	want := record.Record{Holder: "ä", Nonce: "n", Token: 1 << 63, LeaseMs: 10000, Heartbeat: 3,
		Next: &record.Next{ID: "b", Nonce: "m"}, Request: &election.Request{Transfer: "b"},
		History: []election.Tenure{{Leader: "ä", Token: 1 << 63, Since: time.UnixMilli(5).UTC()}}}
	item, err := s.encode("e", want, "v1")
	if err != nil {
		t.Fatal(err)
	}
	got, version, err := decode(item)
	if err != nil || version != "v1" || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, version %q, %v", got, version, err)
	}
	delete(item, attributeVersion)
	if _, _, err := decode(item); !errors.Is(err, errNotOurs) {
		t.Errorf("an item of something else: %v", err)
	}
}

func TestItemOfSomethingElseIsNotOverwritten(t *testing.T) {
	s, _ := answer(t, func([]byte) (int, string) { return 200, `{"Item":{"election":{"S":"e"},"price":{"N":"3"}}}` })
	if _, _, err := s.Read(t.Context(), "e"); !errors.Is(err, election.ErrPermanent) {
		t.Errorf("error %v", err)
	}
}

func TestWaitHonoursItsLimitAndItsContext(t *testing.T) {
	s, err := newStore(nil, Options{Table: "t", Poll: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(t.Context(), "e", "", time.Millisecond); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Wait(ctx, "e", "", time.Hour); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestOptionsThatCannotBeAreRefused(t *testing.T) {
	for _, o := range []Options{{}, {Table: "t", Key: "record"}, {Table: "t", Poll: -1}} {
		if _, err := New(nil, o); err == nil || !strings.HasPrefix(err.Error(), "dynamodb: ") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
