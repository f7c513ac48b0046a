package command

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/migrate"
)

// A step that takes long says what it waits for, once, and at the end what it has waited for in vain.
func TestPollSaysWhatItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said []string
		say := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
		var looks int
		err := poll(t.Context(), time.Minute, say, func() string { return fmt.Sprintf("look %d", looks) }, func() (bool, error) {
			looks++
			return false, nil
		})
		if want := fmt.Sprintf("not within 1m0s: look %d", looks); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		if len(said) != 1 || said[0] != "still waiting: look 50" && said[0] != "still waiting: look 51" {
			t.Errorf("said %q", said)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		interrupted := errors.New("interrupted")
		cancel(interrupted)
		if err := poll(ctx, time.Minute, nil, nil, func() (bool, error) { return false, nil }); err != interrupted {
			t.Errorf("%v", err)
		}
	})
}

func TestWhatAServerLacksIsNamed(t *testing.T) {
	follows := glimpse{Server: migrate.Server{Kind: migrate.Conclave, Mode: "follower"}}
	other, silent, looks := follows, glimpse{}, glimpse{}
	silent.Error = "dial tcp: refused"
	for _, c := range []struct {
		one, other *glimpse
		to         migrate.Kind
		want       string
	}{
		{&silent, &other, migrate.Conclave, "dial tcp: refused"},
		{&looks, &other, migrate.Conclave, "it serves nobody; its log says what it waits for"},
		{&follows, &other, migrate.Apache, "it is one of conclave"},
		{&follows, nil, migrate.Conclave, "no other server serves"},
		{&follows, &other, migrate.Conclave, ""},
	} {
		if got := missing(c.one, c.other, c.to); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// A leader of Apache's that nobody has written to is at a zxid that no transaction has.
func TestNewestIsATransaction(t *testing.T) {
	for want, zxids := range map[uint64][]string{
		0x200000582: {"0x200000582", "0x300000000", "0x200000580", ""},
		0x300000001: {"0x200000582", "0x300000001"},
		0:           {"0x300000000", "0x0", ""},
	} {
		all := make([]glimpse, len(zxids))
		for i, zxid := range zxids {
			all[i].Zxid = zxid
		}
		if got := newest(all); got != want {
			t.Errorf("of %q %#x, want %#x", zxids, got, want)
		}
	}
}
