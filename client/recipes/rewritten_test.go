package recipes

import (
	"context"
	"net"
	"testing"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/zk"
)

// forestalled does something before each delete on its connection.
type forestalled struct {
	net.Conn
	before func()
}

func (f forestalled) Write(frames []byte) (int, error) {
	if len(frames) >= 12 && zk.Op(frames[11]) == zk.OpDelete {
		f.before()
	}
	return f.Conn.Write(frames)
}

// TestItemThatIsRewrittenWhileItIsTakenIsReadAgain: its producer changes it between the
// read and the delete, twice.
func TestItemThatIsRewrittenWhileItIsTakenIsReadAgain(t *testing.T) {
	addr, ctx := serve(t), awaittest.Within(t)
	producer := dialed(t, addr, client.Options{})
	must(t, NewQueue(producer, "/queue", Options{}).Put(ctx, []byte("first")))
	names, _, err := producer.Children(ctx, "/queue")
	must(t, err)
	versions := []string{"second", "third"}
	rewrite := func() {
		if len(versions) > 0 {
			if _, err := producer.Set(ctx, "/queue/"+names[0], []byte(versions[0]), -1); err != nil {
				t.Error(err)
			}
			versions = versions[1:]
		}
	}
	taker := dialed(t, addr, client.Options{Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return forestalled{conn, rewrite}, err
	}})
	if item, err := NewQueue(taker, "/queue", Options{}).Take(ctx); string(item) != "third" || err != nil {
		t.Errorf("took %q, %v of an item that is \"third\"", item, err)
	}
}
