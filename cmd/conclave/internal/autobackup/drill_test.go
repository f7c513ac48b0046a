package autobackup

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"filippo.io/age"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/cmd/conclave/internal/sealed"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/backup"
	"github.com/conclave-project/conclave/internal/datadir"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// store is a place that behaves like an object store: several servers write to it at the same time,
// and an object exists once all of it was sent.
type store struct {
	mu      sync.Mutex
	objects map[string][]byte
}

func (s *store) List(context.Context) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.objects)), nil
}

func (s *store) Put(_ context.Context, name string, write func(io.Writer) error) error {
	var object bytes.Buffer
	if err := write(&object); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[name] = object.Bytes()
	return nil
}

func (s *store) Open(_ context.Context, name string) (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	object, there := s.objects[name]
	if !there {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(object)), nil
}

func (s *store) Remove(_ context.Context, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, name)
	return nil
}

// change makes, or tries to make, one random change.
func change(ctx context.Context, c *client.Client, random *rand.Rand) {
	path := fmt.Sprintf("/d%d", random.IntN(8))
	child := fmt.Sprintf("%s/c%d", path, random.IntN(40))
	switch random.IntN(7) {
	case 0:
		_, _, _ = c.Create(ctx, path, nil, client.CreateOptions{})
	case 1:
		_, _, _ = c.Create(ctx, child, []byte(child), client.CreateOptions{Mode: []zk.CreateMode{zk.Persistent, zk.Ephemeral}[random.IntN(2)]})
	case 2:
		_, _, _ = c.Create(ctx, path+"/s-", []byte("x"), client.CreateOptions{Mode: zk.PersistentSequential})
	case 3:
		_, _ = c.Set(ctx, child, bytes.Repeat([]byte{byte(random.Int())}, random.IntN(200)), -1)
	case 4:
		_ = c.Delete(ctx, child, -1)
	case 5:
		_, _ = c.Multi(ctx, client.SetOp(path, []byte("m"), -1), client.CreateOp(child, nil, client.CreateOptions{}))
	case 6:
		_, _ = c.SetACL(ctx, child, zk.ReadACL(), -1)
	}
}

// seen records the digests that servers have had, by zxid.
type seen struct {
	mu      sync.Mutex
	digests map[zk.Zxid]uint64
	differ  []zk.Zxid
}

// watch asks a server for its digest again and again, until ctx ends.
func (s *seen) watch(ctx context.Context, of func() *server.Server) {
	for ctx.Err() == nil {
		srv := of()
		if srv == nil {
			continue
		}
		st := srv.Status()
		if st.Ended || st.Last.Counter() == 0 {
			continue
		}
		s.mu.Lock()
		if other, there := s.digests[st.Last]; there && other != st.Digest {
			s.differ = append(s.differ, st.Last)
		}
		s.digests[st.Last] = st.Digest
		s.mu.Unlock()
	}
}

// TestEveryMomentOfABackupIsWhatTheServerHad has an ensemble take its own encrypted backups to a
// store, while clients write and a leader ends. Directories are restored from the store, for zxids
// chosen at random, and each must start as a server with the digest that was seen at that zxid.
func TestEveryMomentOfABackupIsWhatTheServerHad(t *testing.T) {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	place := &store{objects: map[string][]byte{}}
	e := start(t, 3)
	e.led()
	s := often(ByLeader)
	s.Recipients = []age.Recipient{identity.Recipient()}
	for id := 1; id <= 3; id++ {
		e.back(id, s, func(context.Context) (backup.Place, func(), error) { return place, func() {}, nil })
	}
	awaittest.Until(t, "the first backup", func() bool {
		names, _ := place.List(t.Context())
		return len(names) > 0
	})
	had := &seen{digests: map[zk.Zxid]uint64{}}
	count := func() int {
		had.mu.Lock()
		defer had.mu.Unlock()
		return len(had.digests)
	}
	ctx, stop := context.WithCancel(awaittest.Within(t))
	defer stop()
	var helpers sync.WaitGroup
	for i := range 3 {
		c := e.dial()
		helpers.Go(func() {
			for random := rand.New(rand.NewPCG(uint64(i), 1)); ctx.Err() == nil; {
				change(ctx, c, random)
			}
		})
		helpers.Go(func() { had.watch(ctx, func() *server.Server { return e.Server(i + 1) }) })
	}
	awaittest.Until(t, "as many states", func() bool { return count() >= 3*drills })
	leader := e.led()
	e.stop[leader]()
	if err := e.Stop(leader); err != nil {
		t.Fatal(err)
	}
	before := count()
	awaittest.Until(t, "as many states of the next leader", func() bool { return count() >= before+3*drills })
	stop()
	helpers.Wait()
	if len(had.differ) > 0 {
		t.Errorf("servers had different digests at %v", had.differ)
	}
	next := e.led()
	last := e.Server(next).Status().Last
	awaittest.Until(t, "a backup of all", func() bool { return e.runners[next].Report().Last >= last })
	if report := e.runners[next].Report(); report.Gaps > 0 {
		t.Fatalf("%+v", report)
	}

	b, err := backup.Open(t.Context(), sealed.New(place, nil, []age.Identity{identity}))
	if err != nil {
		t.Fatal(err)
	}
	first := b.Ranges()[0].First // the servers had states before the first backup
	zxids := slices.DeleteFunc(slices.Sorted(maps.Keys(had.digests)), func(zxid zk.Zxid) bool { return zxid < first })
	if len(zxids) < 5*drills {
		t.Fatalf("%d states were seen after the first backup, at %s", len(zxids), first)
	}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 2))
	epochs := map[uint32]bool{}
	for range drills {
		zxid := zxids[random.IntN(len(zxids))]
		epochs[zxid.Epoch()] = true
		state, err := b.Load(t.Context(), backup.Moment{Zxid: zxid})
		if err != nil || state.Zxid != zxid || state.Mismatches > 0 {
			t.Fatalf("seed %d, load %s: %+v, %v", seed, zxid, state, err)
		}
		if got := restored(t, b, state); got != had.digests[zxid] {
			t.Errorf("seed %d: restored to %s the digest is %x, the server had %x", seed, zxid, got, had.digests[zxid])
		}
	}
	t.Logf("%d moments of %d that were seen, in %d files, epochs %v", drills, len(zxids), len(place.objects), slices.Sorted(maps.Keys(epochs)))
}

// restored restores a state to a directory, and returns the digest of a server that starts on it.
func restored(t *testing.T, b *backup.Backup, state *backup.State) uint64 {
	t.Helper()
	disk := vfs.NewMem()
	if _, err := b.Restore(disk, datadir.Options{DataDir: "/data"}, state); err != nil {
		t.Fatal(err)
	}
	c := server.Default()
	c.FS, c.DataDir, c.ClientAddr, c.PreallocBytes, c.Logger = disk, "/data", "127.0.0.1:0", 64<<10, slog.New(slog.DiscardHandler)
	s, err := server.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	digest := s.Status().Digest
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	return digest
}
