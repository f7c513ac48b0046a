//go:build linux && robust

package robust

import (
	"context"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/test/servers"
	"github.com/conclave-project/conclave/zk"
)

const (
	fullTick    = 500 * time.Millisecond
	fullTimeout = 4 * time.Second // timeout of the session that expires
)

// fullEnsemble starts three servers on separate disks that can be filled.
func fullEnsemble(t *testing.T) *servers.Ensemble {
	t.Helper()
	e, err := servers.NewEnsemble(t.Context(), servers.EnsembleOptions{
		Kinds:  []servers.Kind{kind(t), kind(t), kind(t)},
		Config: []string{"tickTime=500", "initLimit=20", "syncLimit=4", "preAllocSize=1024"},
	})
	must(t, err)
	for _, m := range e.Members {
		must(t, servers.MountDisk(m.DataDir(), 256<<20))
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s\n%s", e.Describe(), e.LogTails(3000))
		}
		for _, m := range e.Members {
			must(t, m.Kill())
			must(t, servers.UnmountDisk(m.DataDir()))
		}
		must(t, e.Close())
	})
	must(t, e.Start(t.Context()))
	return e
}

func connect(t *testing.T, addrs string, timeout time.Duration) *client.Client {
	t.Helper()
	c, err := client.Dial(t.Context(), addrs, client.Options{SessionTimeout: timeout})
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// await polls a condition that nothing announces.
func await(t *testing.T, what string, within time.Duration, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for !ok() {
		select {
		case <-poll.C:
		case <-ctx.Done():
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

// write writes until the condition holds: a log notices that its disk is full only when it
// needs space.
func write(t *testing.T, c *client.Client, within time.Duration, until func() bool) {
	t.Helper()
	data := make([]byte, 16<<10)
	await(t, "writing until it shows", within, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.Set(ctx, "/filled", data, -1)
		_ = err // writes fail while the leader changes
		return until()
	})
}

// The disk of the leader of three is filled to the last byte: another server leads, and the
// ephemeral of a client that dies is deleted in time. When there is space again, the server
// follows by itself, with everything that was written.
func TestLeaderWithAFullDiskGivesUpItsRole(t *testing.T) {
	e := fullEnsemble(t)
	first, err := e.AwaitLeader(t.Context())
	must(t, err)
	witness, writer, dying := connect(t, e.Addrs(), sessionTimeout), connect(t, e.Addrs(), sessionTimeout), connect(t, e.Addrs(), fullTimeout)
	_, _, err = writer.Create(t.Context(), "/filled", nil, client.CreateOptions{})
	must(t, err)
	_, _, err = dying.Create(t.Context(), "/lock", nil, client.CreateOptions{Mode: zk.Ephemeral})
	must(t, err)

	must(t, servers.FillDisk(first.DataDir()))
	began := time.Now()
	write(t, writer, 10*time.Second, func() bool {
		now := e.Leader()
		return now != nil && now != first
	})
	t.Logf("another leads %v after the disk was full", time.Since(began).Round(time.Millisecond))

	must(t, dying.WaitConnected(t.Context()))
	_, _, err = dying.Get(t.Context(), "/lock") // its session has moved, and this is its last heartbeat
	must(t, err)
	dying.Detach()
	died := time.Now()
	await(t, "the ephemeral of the dead client is gone", fullTimeout+2*fullTick, func() bool {
		_, exists, err := witness.Exists(t.Context(), "/lock")
		return err == nil && !exists
	})
	t.Logf("its ephemeral is gone %v after the client died, of a timeout of %v", time.Since(died).Round(time.Millisecond), fullTimeout)
	_, err = writer.Set(t.Context(), "/filled", []byte("last"), -1)
	must(t, err)

	must(t, servers.EmptyDisk(first.DataDir()))
	began = time.Now()
	must(t, first.AwaitMode(t.Context(), "follower"))
	_, err = e.AwaitEqual(t.Context())
	must(t, err)
	t.Logf("with space it follows, and has all, after %v", time.Since(began).Round(time.Millisecond))
	checkRunning(t, e)
}

// Followers with full disks continue to serve for longer than syncLimit, while their leader
// waits for their acks. Writes wait for space, and are not lost.
func TestFollowersWithFullDisksServeOn(t *testing.T) {
	e := fullEnsemble(t)
	leader, err := e.AwaitLeader(t.Context())
	must(t, err)
	var full *servers.Member
	for _, m := range e.Members {
		if m != leader {
			full = m
		}
	}
	writer, local := connect(t, leader.Addr, sessionTimeout), connect(t, full.Addr, sessionTimeout)
	_, _, err = writer.Create(t.Context(), "/filled", nil, client.CreateOptions{})
	must(t, err)
	must(t, servers.FillDisk(full.DataDir()))
	session := local.SessionID()
	write(t, writer, 10*time.Second, func() bool {
		metrics, err := servers.Metrics(full.Addr)
		return err == nil && metrics["zk_disk_full"] == 1
	})
	for end := time.Now().Add(3 * 4 * fullTick); time.Now().Before(end); {
		_, err := writer.Set(t.Context(), "/filled", []byte("through the leader"), -1)
		must(t, err)
		_, err = local.Set(t.Context(), "/filled", []byte("through the full one"), -1)
		must(t, err)
		if got, _, err := local.Get(t.Context(), "/filled"); err != nil || string(got) != "through the full one" {
			t.Fatalf("%q, %v", got, err)
		}
	}
	if now := e.Leader(); now != leader || local.SessionID() != session {
		t.Errorf("server %d leads, session %v is %v", now.ID, session, local.SessionID())
	}
	if s, err := full.Status(); err != nil || s.Mode != "follower" {
		t.Errorf("the full server is %v, %v", s.Mode, err)
	}
	must(t, servers.EmptyDisk(full.DataDir()))
	_, err = e.AwaitEqual(t.Context())
	must(t, err)
	checkRunning(t, e)
}

// checkRunning fails the test if a server has ended by itself.
func checkRunning(t *testing.T, e *servers.Ensemble) {
	t.Helper()
	for _, m := range e.Members {
		select {
		case <-m.Server().Ended():
			t.Errorf("server %d has ended: %v", m.ID, m.Server().ExitError())
		default:
		}
	}
}
