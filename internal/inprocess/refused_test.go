package inprocess

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/zk"
)

// A client that requests a configuration with which no server could be started gets a code;
// the reason is in the leader's log.
func TestReasonOfARefusedReconfigIsLogged(t *testing.T) {
	base := quick()
	base.ReconfigEnabled, base.Auth.SkipACL, base.Reconfig.MultiAddress = true, true, true
	var log awaittest.Log
	e, err := Start(Options{Servers: 3, Base: base, Logger: func(int) *slog.Logger { return slog.New(slog.NewTextHandler(&log, nil)) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	serve(t, e)
	lead(t, e)
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, strings.Join(e.Addrs(), ","), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _, err = c.Reconfig(ctx, client.Change{Version: -1, Joining: []string{"server.4=10.0.0.1:1:2|10.0.0.2:2:4;5"}})
	if !errors.Is(err, zk.ErrBadArguments) {
		t.Errorf("the client got %v", err)
	}
	const want = "server.4=10.0.0.1:1:2|10.0.0.2:2:4:participant;0.0.0.0:5: a port for learners is one for votes as well"
	awaittest.Until(t, "the log has the reason", func() bool { // it is written asynchronously
		got := log.String()
		return strings.Contains(got, "a reconfig was refused") && strings.Contains(got, want)
	})
}
