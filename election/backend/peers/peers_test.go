package peers_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/algo"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/peers"
	"github.com/conclave-project/conclave/internal/awaittest"
	virtual "github.com/conclave-project/conclave/internal/bubble"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/vfs/osfs"
)

// patience is how long these tests wait for what must happen.
const patience = 30 * time.Second

// found starts a group of n members: a, b and so on. Edit may change the options of each.
func found(t *testing.T, n int, edit func(*peers.Options)) []*peers.Backend {
	t.Helper()
	return foundOn(t, osfs.New(), n, edit)
}

func foundOn(t *testing.T, disk vfs.FS, n int, edit func(*peers.Options)) []*peers.Backend {
	t.Helper()
	dir := t.TempDir()
	var members []peers.Member
	listeners := make([]net.Listener, n)
	for i := range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners[i] = l
		members = append(members, peers.Member{ID: algo.ID(rune('a' + i)), Addr: l.Addr().String()})
	}
	var started []*peers.Backend
	for i, l := range listeners {
		id := members[i].ID
		o := peers.Options{ID: id, Members: members, Dir: filepath.Join(dir, string(id)), Lease: time.Second, Listener: l}
		if edit != nil {
			edit(&o)
		}
		started = append(started, openOn(t, disk, o))
	}
	return started
}

func open(t *testing.T, o peers.Options) *peers.Backend {
	t.Helper()
	return openOn(t, osfs.New(), o)
}

// longer is a lease that outlasts a stall of the machine, for leaders that are to stay. Tests
// that watch them for more than that run in parallel.
const longer = 5 * time.Second

func patient(o *peers.Options) { o.Lease = longer }

func openOn(t *testing.T, disk vfs.FS, o peers.Options) *peers.Backend {
	t.Helper()
	b, err := peers.NewOn(o, disk)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

var nonces atomic.Uint64

func claim(name, id string, priority int) election.Claim {
	return election.Claim{Election: name, ID: id, Nonce: fmt.Sprintf("%032x", nonces.Add(1)), Lease: patience,
		Priority: priority}
}

// acquire returns a grant, and renews it until it is released, as an Elector does.
func acquire(t *testing.T, b *peers.Backend, c election.Claim) election.Grant {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	grant, err := b.Acquire(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for latest, err := grant, error(nil); err == nil; {
			latest, err = b.Renew(t.Context(), latest)
		}
	}()
	return grant
}

// await returns once a member sees what is wanted.
func await(t *testing.T, b *peers.Backend, name string, want func(election.View, error) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var last string
	for view, err := range b.Observe(ctx, name) {
		if want(view, err) {
			return
		}
		last = fmt.Sprintf("%+v %v", view, err)
	}
	t.Fatalf("not seen; last: %s", last)
}

func whole(v election.View, err error) bool { return err == nil }

// When half of the members are gone, the leader stops before its lease is over, and nobody
// leads; when they are back, somebody does.
func TestNobodyLeadsWithoutAQuorum(t *testing.T) {
	t.Parallel()
	g := found(t, 3, patient)
	grant := acquire(t, g[0], claim("x", "a", 0))
	g[1].Cut()
	if _, err := g[0].Renew(t.Context(), grant); err != nil {
		t.Fatalf("one of three is gone: %v", err)
	}
	g[2].Cut()
	select {
	case <-grant.Lost:
	case <-time.After(patience):
		t.Fatal("leads without a quorum")
	}
	if _, err := g[0].Renew(t.Context(), grant); !errors.Is(err, election.ErrLost) {
		t.Errorf("renewed: %v", err)
	}
	await(t, g[0], "x", func(v election.View, err error) bool { return v.Leader == "" && err != nil })
	again := make(chan election.Grant, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		grant, _ := g[0].Acquire(ctx, claim("x", "a", 0))
		again <- grant
	}()
	g[1].Heal()
	if second := <-again; second.Token <= grant.Token {
		t.Errorf("token %d after %d", second.Token, grant.Token)
	}
}

// All members stop, and start again with what is on their disks.
func TestTokensGrowWhenAllStartAgain(t *testing.T) {
	var options []peers.Options
	keep := func(o *peers.Options) { options = append(options, *o) }
	g := found(t, 3, keep)
	grant := acquire(t, g[0], claim("x", "a", 0))
	for range 3 {
		for _, b := range g {
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
		}
		for i := range g {
			options[i].Listener = nil
			g[i] = open(t, options[i])
		}
		again := acquire(t, g[1], claim("x", "b", 0))
		if again.Token <= grant.Token {
			t.Fatalf("token %d after %d", again.Token, grant.Token)
		}
		grant = again
	}
}

// A new group goes on with higher tokens, and lets in no member of the old one.
func TestNewGroupGoesOnAfterTheTokensOfTheOld(t *testing.T) {
	t.Parallel()
	g := found(t, 3, func(o *peers.Options) { o.After, o.Lease = 4711, longer })
	first := acquire(t, g[0], claim("x", "a", 0))
	if first.Token != 4712 {
		t.Errorf("the first token is %d", first.Token)
	}
	mixed := found(t, 2, func(o *peers.Options) {
		if o.ID == "b" {
			o.After = 4711
		}
	})
	await(t, mixed[0], "x", func(_ election.View, err error) bool {
		return err != nil && strings.Contains(err.Error(), "its tokens are after 4711")
	})
}

// A disk that hangs holds up only the elections in which its member has to write.
func TestSlowDiskHoldsUpNoLeader(t *testing.T) {
	t.Parallel()
	var hangs sync.Mutex
	slow := &vfs.Faulty{Disk: osfs.New(), Before: func(op vfs.Op) error {
		if op.Kind == vfs.KindSync {
			hangs.Lock()
			defer hangs.Unlock()
		}
		return nil
	}}
	g := foundOn(t, slow, 3, patient)
	grant := acquire(t, g[0], claim("x", "a", 0))
	await(t, g[1], "x", func(v election.View, err error) bool { return v.Leader == "a" && err == nil })

	hangs.Lock()
	second := make(chan election.Grant, 1)
	go func() {
		grant, err := g[1].Acquire(t.Context(), claim("y", "b", 0))
		if err != nil {
			t.Error(err)
		}
		second <- grant
	}()
	for start := time.Now(); time.Since(start) < 3*longer/2; {
		var err error
		if grant, err = g[0].Renew(t.Context(), grant); err != nil {
			t.Fatalf("a leader loses to a disk: %v", err)
		}
	}
	select {
	case <-second:
		t.Error("elected with no vote on disk")
	default:
	}
	hangs.Unlock()
	select {
	case <-second:
	case <-time.After(patience):
		t.Error("not elected when the disk goes on")
	}
}

func TestHistoryDoesNotWaitForFrozenMembers(t *testing.T) {
	g := found(t, 3, nil)
	acquire(t, g[0], claim("x", "a", 0))
	awaittest.Until(t, "both others are reached", func() bool { return g[0].Links() >= 2 })
	thawed := make(chan struct{})
	defer close(thawed)
	g[1].Freeze(thawed)
	g[2].Freeze(thawed)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if history, err := g[0].History(ctx, "x"); err != nil || len(history) != 1 {
		t.Errorf("history %v, %v", history, err)
	}
}

// broken returns a disk that fails with an error once that is set.
func broken() (disk vfs.FS, set *atomic.Pointer[error]) {
	set = new(atomic.Pointer[error])
	return &vfs.Faulty{Disk: osfs.New(), Before: func(op vfs.Op) error {
		if err := set.Load(); err != nil && op.Changes() {
			return *err
		}
		return nil
	}}, set
}

// A member whose disk fails no longer takes part; its grants are lost.
func TestMemberWhoseDiskFailsEnds(t *testing.T) {
	disk, fail := broken()
	b := foundOn(t, disk, 1, nil)[0]
	grant := acquire(t, b, claim("x", "a", 0))
	fail.Store(&errBroken)
	_, err := b.Acquire(t.Context(), claim("y", "a", 0))
	if !errors.Is(err, election.ErrPermanent) || !errors.Is(err, errBroken) {
		t.Errorf("acquired on a disk that is broken: %v", err)
	}
	<-grant.Lost
	if err := b.Close(); !errors.Is(err, errBroken) {
		t.Errorf("closed with %v", err)
	}
}

var errBroken = errors.New("input/output error")

// A member whose disk is full leads on where it led, is elected nowhere else, and goes on once
// there is space.
func TestMemberWhoseDiskIsFullWaitsForSpace(t *testing.T) {
	t.Parallel()
	disk, fail := broken()
	said := make(chan string, 100)
	b := foundOn(t, disk, 1, func(o *peers.Options) {
		o.Lease, o.Log = longer, func(line string) { said <- line }
	})[0]
	grant := acquire(t, b, claim("x", "a", 0))
	full := error(vfs.ErrNoSpace)
	fail.Store(&full)
	second := make(chan error, 1)
	go func() {
		_, err := b.Acquire(t.Context(), claim("y", "a", 0))
		second <- err
	}()
	for line := range said {
		if strings.Contains(line, "no space") {
			break
		}
	}
	for start := time.Now(); time.Since(start) < 3*longer/2; {
		var err error
		if grant, err = b.Renew(t.Context(), grant); err != nil {
			t.Fatalf("a leader loses to a full disk: %v", err)
		}
	}
	select {
	case err := <-second:
		t.Errorf("elected with nothing on disk, %v", err)
	default:
	}
	fail.Store(nil)
	select {
	case err := <-second:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("not elected when there is space")
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// Heartbeats of all elections of a member go as one frame (peers-P5).
func TestHeartbeatsOfManyElectionsGoInOnePacket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const elections, lease = 200, 5 * time.Second
		var writes atomic.Int64
		network, its := virtual.NewNet(0), virtual.Clock(1)
		members := []peers.Member{{ID: "a", Addr: virtual.Host(1) + ":7400"}, {ID: "b", Addr: virtual.Host(2) + ":7400"},
			{ID: "c", Addr: virtual.Host(3) + ":7400"}}
		var g []*peers.Backend
		for i, m := range members {
			l, err := network.Listen(t.Context(), "tcp", m.Addr)
			if err != nil {
				t.Fatal(err)
			}
			b, err := peers.NewIn(peers.Options{ID: m.ID, Members: members, Dir: "dir", Lease: lease, Listener: countingListener{l, &writes}},
				vfs.NewMem(), its, network.Dialer(i+1))
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			g = append(g, b)
		}
		for i := range elections {
			acquire(t, g[0], claim(fmt.Sprintf("shard/%03d", i), "a", 0))
		}
		grant := acquire(t, g[0], claim("last", "a", 0))
		for _, b := range g[1:] { // a quorum was enough for a: make sure that both have answered
			await(t, b, "last", func(v election.View, err error) bool { return err == nil && v.Token == grant.Token })
		}
		before := writes.Load()
		time.Sleep(2 * lease)
		const heartbeats = 10 // five in a lease
		// b and c answer a on connections that they accepted; they send no heartbeats themselves.
		if n := writes.Load() - before; n < heartbeats || n > 6*heartbeats {
			t.Errorf("%d writes for %d heartbeats of %d elections", n, heartbeats, elections)
		}
	})
}

// countingListener counts what is written on the connections it takes.
type countingListener struct {
	net.Listener
	writes *atomic.Int64
}

func (l countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return countingConn{conn, l.writes}, err
}

type countingConn struct {
	net.Conn
	writes *atomic.Int64
}

func (c countingConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// When a leader dies, the candidate with the highest priority is next.
func TestPriorityDecidesWhoIsNext(t *testing.T) {
	g := found(t, 3, patient)
	held := acquire(t, g[0], claim("x", "first", 0))
	granted := make(chan string, 3)
	for _, c := range []struct {
		member, priority int
		id               string
	}{{1, 0, "low"}, {2, 7, "high"}, {0, 3, "middle"}} {
		go func() {
			grant, err := g[c.member].Acquire(t.Context(), claim("x", c.id, c.priority))
			if err == nil {
				granted <- grant.Claim.ID
				err = g[c.member].Release(t.Context(), grant)
			}
			if err != nil {
				t.Error(err)
			}
		}()
	}
	await(t, g[0], "x", func(v election.View, err error) bool {
		return fmt.Sprint(v.WaiterIDs()) == "[high middle low]"
	})
	renewed, err := g[0].Renew(t.Context(), held)
	if err != nil || renewed.Rival != "high" {
		t.Errorf("rival %q, %v", renewed.Rival, err)
	}
	if err := g[0].Release(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"high", "middle", "low"} {
		select {
		case got := <-granted:
			if got != want {
				t.Errorf("%s leads, not %s", got, want)
			}
		case <-time.After(patience):
			t.Fatalf("%s does not get its turn", want)
		}
	}
}

// The other algorithms elect too, and report that they are not exclusive.
func TestOtherAlgorithmsElectAndPromiseLess(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"bully", "ring", "lowest"} {
		t.Run(name, func(t *testing.T) {
			g := found(t, 3, func(o *peers.Options) { o.Algorithm, o.Dir, o.Lease = name, "", longer })
			for _, b := range g {
				await(t, b, "x", whole)
			}
			if g[0].Traits().Exclusive {
				t.Error("says that it is exclusive")
			}
			first := acquire(t, g[1], claim("x", "b", 0))
			if _, err := g[1].Renew(t.Context(), first); err != nil {
				t.Error(err)
			}
			await(t, g[2], "x", func(v election.View, err error) bool { return v.Leader == "b" && v.Token == first.Token })
			if err := g[1].Release(t.Context(), first); err != nil {
				t.Error(err)
			}
			second := acquire(t, g[2], claim("x", "c", 0))
			if err := g[2].Nominate(t.Context(), second, "b"); err == nil {
				t.Error("hands over to a chosen one")
			}
		})
	}
}

// With TLS, a member must have a certificate for its id.
func TestCertificatesSayWhoAMemberIs(t *testing.T) {
	authority := newAuthority(t)
	g := found(t, 3, func(o *peers.Options) { o.TLS = authority.member(t, string(o.ID)) })
	grant := acquire(t, g[0], claim("x", "a", 0))
	await(t, g[1], "x", func(v election.View, err error) bool { return v.Token == grant.Token })

	impostor := found(t, 2, func(o *peers.Options) {
		o.TLS = authority.member(t, "a") // b has it too
	})
	await(t, impostor[0], "x", func(_ election.View, err error) bool {
		return err != nil && strings.Contains(err.Error(), "certificate")
	})
}

type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	a := &authority{key: newKey(t), pool: x509.NewCertPool()}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err == nil {
		a.cert, err = x509.ParseCertificate(der)
	}
	if err != nil {
		t.Fatal(err)
	}
	a.pool.AddCert(a.cert)
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (a *authority) member(t *testing.T, id string) *tls.Config {
	key := newKey(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(2), DNSNames: []string{id},
		NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		RootCAs: a.pool, ClientCAs: a.pool, ClientAuth: tls.RequireAndVerifyClientCert}
}

func TestURLs(t *testing.T) {
	o, err := peers.ParseURL("peers://b@10.0.0.2:7400,a@[::1]:7400?dir=/var/lib/x&lease=2s&algorithm=raft")
	if err != nil || o.ID != "b" || len(o.Members) != 2 || o.Members[1].Addr != "[::1]:7400" ||
		o.Dir != "/var/lib/x" || o.Lease != 2*time.Second || o.Algorithm != "raft" {
		t.Errorf("%+v, %v", o, err)
	}
	for url, want := range map[string]string{
		"peer://a@h:1":                          "no URL of peers",
		"peers://":                              "not ID@HOST:PORT",
		"peers://h:1?dir=/x":                    "not ID@HOST:PORT",
		"peers://a@h?dir=/x":                    "not ID@HOST:PORT",
		"peers://a@h:1?color=red":               "unknown parameter",
		"peers://a@h:1?lease=soon":              "not a time",
		"peers://a@h:1?dir=/x&lease=0s":         "not a time",
		"peers://a@h:1?dir=/x&dir=/y":           "parameter dir has 2 values",
		"peers://a@h:1?dir=/x&lease=":           "parameter lease has 1 values, or an empty one",
		"peers://a@h:1?after=all":               "not a token",
		"peers://a@h:1?tls-cert=x":              "go together",
		"peers://a@h:1":                         "no directory",
		"peers://a@h:1,a@h:2?dir=/x":            "two members",
		"peers://a@h:1?dir=/x&lease=1ms":        "whole milliseconds",
		"peers://a@h:1?algorithm=paxos&dir=/x":  "no algorithm is called",
		"peers://a b@h:1?algorithm=bully&dir=/": "has the character",
	} {
		_, _, err := peers.Open(t.Context(), url)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %q", url, err, want)
		}
	}
}

// TestEveryProofIsNewsForTheHolder: it need not wait for its next renewal to count its time from
// the latest heartbeat that a quorum has answered.
func TestEveryProofIsNewsForTheHolder(t *testing.T) {
	t.Parallel()
	backend := found(t, 3, patient)[0]
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	grant, err := backend.Acquire(ctx, election.Claim{Election: "news", ID: "me", Nonce: strings.Repeat("a", 32), Lease: longer})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		select {
		case <-grant.News:
		case <-ctx.Done():
			t.Fatal("no proof was news")
		}
		renewed, err := backend.Renew(ctx, grant)
		if err != nil {
			t.Fatal(err)
		}
		if renewed.Sent <= grant.Sent {
			t.Fatalf("news of a proof of %v after one of %v", renewed.Sent, grant.Sent)
		}
		grant = renewed
	}
	if err := backend.Release(ctx, grant); err != nil {
		t.Fatal(err)
	}
}

// TestCandidateOfAClosedMemberEnds: otherwise it would wait forever for a member that no longer
// takes part.
func TestCandidateOfAClosedMemberEnds(t *testing.T) {
	b := found(t, 1, nil)[0]
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := b.Acquire(t.Context(), claim("x", "a", 0))
	if !errors.Is(err, election.ErrPermanent) || !errors.Is(err, election.ErrClosed) {
		t.Errorf("Acquire returned %v", err)
	}
}
