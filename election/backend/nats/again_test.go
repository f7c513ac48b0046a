//go:build conformance && linux

package nats

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/record"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/test/stores"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// lateJS calls a function before its first message.
type lateJS struct {
	jetstream.JetStream
	once   sync.Once
	before func()
}

func (l *lateJS) PublishMsg(ctx context.Context, m *nats.Msg, options ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	l.once.Do(l.before)
	return l.JetStream.PublishMsg(ctx, m, options...)
}

// TestBucketThatBeginsAgainUnderATakeElectsNobody (nats-J4): the candidate has looked at the
// incarnation, and is held up before it writes. Meanwhile another candidate is elected, and the
// bucket is lost and made again. The message finds no record in the new bucket, and a lower token.
func TestBucketThatBeginsAgainUnderATakeElectsNobody(t *testing.T) {
	const leaseMax = 3 * time.Second
	url := newBucket(t, stores.Start(t, "nats").URL, "&lease-max=3s")
	target, err := parse(url)
	if err != nil {
		t.Fatal(err)
	}
	claim := func(id string) election.Claim {
		return election.Claim{Election: "e", ID: id, Nonce: "nonce" + id, Lease: leaseMax}
	}
	quick := open(t, url)
	var forgotten election.Grant
	late := &lateJS{JetStream: operator(t, url)}
	late.before = func() {
		var err error
		if forgotten, err = quick.Acquire(awaittest.Within(t), claim("quick")); err != nil {
			t.Error(err)
		}
		if err := late.DeleteStream(awaittest.Within(t), "KV_"+target.options.Bucket); err != nil {
			t.Error(err)
		}
		if _, err := openStore(t, url).info(awaittest.Within(t)); err != nil { // which makes it
			t.Error(err)
		}
	}
	s, err := newStore(late, target.options)
	if err != nil {
		t.Fatal(err)
	}
	defer s.hub.Close()
	next, err := record.New(s, record.Options{}).Acquire(awaittest.Within(t), claim("late"))
	if err != nil {
		t.Fatal(err)
	}
	if now, until := clock.Now(), forgotten.Sent.Add(forgotten.Lease); now < until {
		t.Errorf("elected %v before the lease that was forgotten had run out", until.Sub(now))
	}
	if next.Token <= forgotten.Token {
		t.Errorf("token %d after %d", next.Token, forgotten.Token)
	}
}
