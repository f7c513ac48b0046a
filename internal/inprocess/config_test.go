package inprocess

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// A copy of another ensemble's tree, made as super user, writes that ensemble's servers
// into /zookeeper/config. This is data and not a reconfig: restarted servers keep their own
// ensemble, and show it.
func TestDataOfTheConfigZnodeIsNoReconfig(t *testing.T) {
	base := reconfigurable()
	e, err := Start(Options{Servers: 3, Base: base})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	serve(t, e)
	leader := lead(t, e)
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, strings.Join(e.Addrs(), ","), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	own, stat, err := c.Get(ctx, zk.ConfigPath)
	if err != nil {
		t.Fatal(err)
	}
	other := "server.1=127.0.0.1:1:2:participant;127.0.0.1:3\nserver.7=127.0.0.1:4:5:participant;127.0.0.1:6\n" +
		"server.8=127.0.0.1:7:8:participant;127.0.0.1:9\nversion=100000777"
	if _, err := c.Set(ctx, zk.ConfigPath, []byte(other), stat.Version); err != nil {
		t.Fatal(err)
	}
	for _, id := range []int{leader%3 + 1, leader} {
		if err := e.Kill(id); err != nil {
			t.Fatal(err)
		}
		if err := e.Start(id); err != nil {
			t.Fatal(err)
		}
		lead(t, e)
		serve(t, e)
	}
	again, err := client.Dial(ctx, e.Addr(leader), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if now, _, err := again.Get(ctx, zk.ConfigPath); err != nil || string(now) != string(own) {
		t.Errorf("server %d shows %q, %v, expected %q", leader, now, err, own)
	}
}

// The directories of an ensemble are restored on other machines, whose configuration names
// these machines. This configuration counts; nothing answers at the old addresses. If the
// first ensemble was reconfigured, a server cannot know whether it has missed a change, so
// it refuses to start, and says what to do.
func TestDirectoriesRestoredOnOtherMachines(t *testing.T) {
	for name, reconfigured := range map[string]bool{"as founded": false, "reconfigured": true} {
		t.Run(name, func(t *testing.T) {
			base := quick()
			base.ReconfigEnabled, base.Auth.SkipACL, base.SnapCount = true, true, 20
			disks := map[int]*vfs.Mem{1: vfs.NewMem(), 2: vfs.NewMem(), 3: vfs.NewMem()}
			begin := func() *Ensemble {
				e, err := Start(Options{Servers: 3, Base: base, FS: func(id int) vfs.FS { return disks[id] }})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(e.Close)
				serve(t, e)
				return e
			}
			first := begin()
			ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
			defer cancel()
			c, err := client.Dial(ctx, strings.Join(first.Addrs(), ","), client.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if reconfigured {
				if _, _, err := c.Reconfig(ctx, client.Change{Leaving: []string{"3"}, Version: -1}); err != nil {
					t.Fatal(err)
				}
			}
			for i := range 100 { // enough for several snapshots
				path := fmt.Sprintf("/n%d", i)
				_, _, err := c.Create(ctx, path, nil, client.CreateOptions{})
				for err != nil && !errors.Is(err, zk.ErrNodeExists) && ctx.Err() == nil { // a server that was reconfigured closes connections
					_, _, err = c.Create(ctx, path, nil, client.CreateOptions{})
				}
				if ctx.Err() != nil {
					t.Fatal(err)
				}
			}
			for id, disk := range disks {
				disks[id] = disk.CrashClone(0, 0)
			}
			first.Close()
			for _, m := range first.members {
				for _, address := range []string{m.client.addr(), m.quorum.addr(), m.vote.addr()} {
					l, err := net.Listen("tcp", address)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { l.Close() })
				}
			}
			if reconfigured {
				refusesForeignData(t, base, disks[1])
				return
			}
			restored := begin()
			for range 2 {
				leader := lead(t, restored)
				if err := restored.Kill(leader); err != nil {
					t.Fatal(err)
				}
				lead(t, restored)
				if err := restored.Start(leader); err != nil {
					t.Fatal(err)
				}
				serve(t, restored)
			}
			again, err := client.Dial(ctx, strings.Join(restored.Addrs(), ","), client.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer again.Close()
			text, _, err := again.Get(ctx, zk.ConfigPath)
			_, port, _ := net.SplitHostPort(restored.members[2].vote.addr())
			if err != nil || strings.Count(string(text), "server.") != 3 || !strings.Contains(string(text), ":"+port+":") {
				t.Errorf("%q, %v", text, err)
			}
			if _, found, err := again.Exists(ctx, "/n99"); !found || err != nil {
				t.Errorf("the data are lost: %v", err)
			}
		})
	}
}

// refusesForeignData starts a server with the data of an ensemble that was reconfigured,
// and with a configuration that does not know about it: another ensemble's, or one without
// reconfigs.
func refusesForeignData(t *testing.T, base server.Config, disk *vfs.Mem) {
	t.Helper()
	for _, test := range []struct {
		host, version string
		enabled       bool
		want          string
	}{
		{"127.0.0.2", "0", true, "names none of its hosts"},
		{"127.0.0.2", "7fffffff00000000", true, ""},
		{"127.0.0.1", "0", false, "reconfigEnabled is false"},
		{"127.0.0.1", "7fffffff00000000", false, ""},
	} {
		want := test.want
		c, err := ensemble.Parse(fmt.Sprintf("server.1=%s:1:2;3\nserver.2=%s:3:4;3\nversion=%s", test.host, test.host, test.version))
		if err != nil {
			t.Fatal(err)
		}
		config := base
		config.ReconfigEnabled = test.enabled
		config.FS, config.DataDir, config.ID, config.Ensemble = disk.CrashClone(0, 0), "/1", 1, c
		config.ClientAddr, config.QuorumAddr, config.ElectionAddr = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
		config.Logger = slog.New(slog.DiscardHandler)
		s, err := server.New(config)
		if err == nil {
			stopped, stop := context.WithCancel(context.Background())
			stop()
			err = s.Run(stopped)
		}
		switch {
		case want == "" && err != nil:
			t.Errorf("%+v: refused with the version that it has named: %v", test, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%+v: not refused, %v", test, err)
		}
	}
}

// TestReconfigWithoutARightIsNotLookedAt, however wrong or long the request is.
func TestReconfigWithoutARightIsNotLookedAt(t *testing.T) {
	base := quick()
	base.ReconfigEnabled = true
	e, err := Start(Options{Servers: 3, Base: base})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	serve(t, e)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, strings.Join(e.Addrs(), ","), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, line := range []string{"nonsense", "server.3=10.0.0.3:1:2;3"} {
		if _, _, err := c.Reconfig(ctx, client.Change{Joining: []string{line}, Version: -1}); !errors.Is(err, zk.ErrNoAuth) {
			t.Errorf("%s: %v", line, err)
		}
	}
}
