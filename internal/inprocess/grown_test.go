package inprocess

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/vfs"
)

// alone writes a history with a standalone server, and returns its disk.
func alone(t *testing.T) *vfs.Mem {
	t.Helper()
	disk := vfs.NewMem()
	base := quick()
	e, err := Start(Options{Servers: 1, Base: base, Change: func(_ int, c *server.Config) { c.FS, c.DataDir = disk, "/data" }})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	create(t, e, "/kept")
	return disk
}

func create(t *testing.T, e *Ensemble, path string) {
	t.Helper()
	c := dial(t, e)
	defer c.Close()
	if _, _, err := c.Create(awaittest.Within(t), path, nil, client.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func dial(t *testing.T, e *Ensemble) *client.Client {
	t.Helper()
	c, err := client.Dial(awaittest.Within(t), strings.Join(e.Addrs(), ","), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// threeOn starts three servers on the given disks. The function that it returns gives the
// error with which a server has ended, "" for none.
func threeOn[D vfs.FS](t *testing.T, disks map[int]D) (*Ensemble, func(id int) string) {
	t.Helper()
	var ended [4]atomic.Pointer[string]
	e, err := Start(Options{Servers: 3, Base: quick(), Change: func(id int, c *server.Config) { c.FS, c.DataDir = disks[id], "/data" },
		Ended: func(id int, err error) {
			text := err.Error()
			ended[id].Store(&text)
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e, func(id int) string {
		if text := ended[id].Load(); text != nil {
			return *text
		}
		return ""
	}
}

// grown starts three servers while the first one is down. The function that it returns
// gives the errors with which servers have ended.
func grown(t *testing.T, disks map[int]*vfs.Mem, first *vfs.Mem) (*Ensemble, func(id int) string) {
	t.Helper()
	e, ended := threeOn(t, disks)
	if err := e.Stop(1); err != nil {
		t.Fatal(err)
	}
	serve(t, e) // both have begun a history without the first
	disks[1] = first
	return e, ended
}

// A standalone server is joined by two others, which are up first and elect one of
// themselves. Their history is empty or short, and the standalone server's is the only copy
// of what it acknowledged.
func TestServerThatWasAloneKeepsItsHistoryFromNewServers(t *testing.T) {
	for _, written := range []bool{false, true} {
		t.Run(fmt.Sprint("written ", written), func(t *testing.T) {
			first := alone(t)
			e, ended := grown(t, map[int]*vfs.Mem{1: vfs.NewMem(), 2: vfs.NewMem(), 3: vfs.NewMem()}, first)
			lead(t, e)
			if written {
				create(t, e, "/other")
			}
			if err := e.Start(1); err != nil {
				t.Fatal(err)
			}
			awaittest.Until(t, "it has ended, with the reason", func() bool {
				return strings.Contains(ended(1), "alone with a history")
			})
			e.Close()

			// The solution that its message suggests: it is one of the majority.
			disks := map[int]*vfs.Mem{1: vfs.NewMem(), 2: vfs.NewMem(), 3: vfs.NewMem()}
			e, _ = grown(t, disks, first)
			if err := e.Stop(3); err != nil {
				t.Fatal(err)
			}
			if err := e.Stop(2); err != nil {
				t.Fatal(err)
			}
			disks[2], disks[3] = vfs.NewMem(), vfs.NewMem()
			for id := 1; id <= 3; id++ {
				if err := e.Start(id); err != nil {
					t.Fatal(err)
				}
				if id == 2 && lead(t, e) != 1 {
					t.Fatal("the new server leads")
				}
			}
			serve(t, e)
			c := dial(t, e)
			defer c.Close()
			if _, _, err := c.Get(awaittest.Within(t), "/kept"); err != nil {
				t.Error(err)
			}
			awaittest.Until(t, "it is not noted as alone any more", func() bool {
				alone, err := vfs.Exists(first, "/data/version-2/alone")
				return err == nil && !alone
			})
			awaittest.Until(t, "all have it", func() bool {
				last := e.Server(1).Status().Last
				return e.Server(2).Status().Last == last && e.Server(3).Status().Last == last
			})
		})
	}
}

// It was elected and has begun an epoch, but no other server has received its history yet,
// so it still has the only copy of what it acknowledged.
func TestServerThatWasAloneKeepsItsHistoryUntilAnotherHasIt(t *testing.T) {
	first := alone(t)
	breaks := func() vfs.FS { // when the epoch of a leader is to be written
		begun := false
		return &vfs.Faulty{Disk: vfs.NewMem(), Before: func(op vfs.Op) error {
			if op.Kind != vfs.KindRename || !strings.HasSuffix(op.Target, "/currentEpoch") || !begun {
				begun = begun || strings.HasSuffix(op.Target, "/currentEpoch")
				return nil
			}
			return errors.New("input/output error")
		}}
	}
	disks := map[int]vfs.FS{1: first, 2: breaks(), 3: breaks()}
	e, ended := threeOn(t, disks)
	awaittest.Until(t, "the new servers have ended", func() bool { return ended(2) != "" && ended(3) != "" })
	if err := e.Stop(1); err != nil {
		t.Fatal(err)
	}
	if epoch, err := vfs.ReadFile(first, "/data/version-2/currentEpoch", 100); err != nil || strings.HasPrefix(string(epoch), "0") {
		t.Fatalf("it has not led: %q, %v", epoch, err)
	}
	disks[2], disks[3] = vfs.NewMem(), vfs.NewMem()
	for id := 2; id <= 3; id++ {
		if err := e.Start(id); err != nil {
			t.Fatal(err)
		}
	}
	serve(t, e)
	if err := e.Start(1); err != nil {
		t.Fatal(err)
	}
	awaittest.Until(t, "it has ended, with the reason, or leads, for it has begun a later epoch", func() bool {
		return e.Leader() == 1 || strings.Contains(ended(1), "alone with a history")
	})
}
