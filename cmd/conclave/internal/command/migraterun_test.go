package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/migrate"
	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/spf13/cobra"
)

// A step that takes long says once what it waits for, and at the end what it has waited for in
// vain.
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

// An exchange that was interrupted, or that has found a difference, and is run again, compares the
// servers that it does not exchange.
func TestExchangeThatIsRunAgainComparesWhatIsThere(t *testing.T) {
	config, err := ensemble.Parse("server.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\n")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		modes  [3]string
		digest string // of the first server
		failed string
	}{
		"equal":              {[3]string{"follower", "follower", "leader"}, "7", ""},
		"another tree":       {[3]string{"follower", "follower", "leader"}, "8", "server 1: its digest at zxid 0x"},
		"that of the leader": {[3]string{"leader", "follower", "follower"}, "8", "server 1: its digest at zxid 0x"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var digests atomic.Int64 // clients write all the time
			answer := func(id int, command string) string {
				switch command {
				case "srvr":
					version := "3.9.5-conclave-1"
					if id == 2 {
						version = "3.9.5"
					}
					return fmt.Sprintf("Zookeeper version: %s, built\nZxid: 0x1%08x\nMode: %s\n", version, digests.Add(1)<<7, c.modes[id-1])
				case "hash":
					digest, all := "7", ""
					if id == 1 {
						digest = c.digest
					}
					for i := range digests.Load() {
						all += fmt.Sprintf("1%08x: %s\n", (i+1)<<7, digest)
					}
					return all
				}
				return "zk_global_sessions\t3\n"
			}
			x := &moving{config: config, addresses: map[quorum.ID]string{1: "1", 2: "2", 3: "3"}}
			x.timeout, x.asker.open = time.Second, func(_ context.Context, _, address string) (net.Conn, error) {
				ours, theirs := net.Pipe()
				go func() {
					defer theirs.Close()
					name := make([]byte, 4)
					if _, err := io.ReadFull(theirs, name); err == nil {
						_, _ = io.WriteString(theirs, answer(int(address[0]-'0'), string(name)))
					}
				}()
				return ours, nil
			}
			v := &migrateRun{migration: migration{wait: time.Minute}, to: migrate.Conclave}
			if err := v.compareExchanged(t.Context(), &cobra.Command{}, x); (err == nil) != (c.failed == "") || err != nil && !strings.HasPrefix(err.Error(), c.failed) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}
