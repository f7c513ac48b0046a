package adminport

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/admin"
	"github.com/conclave-project/conclave/internal/auth"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// serve runs a standalone server until the test ends, and returns a client of it.
func serve(t *testing.T, fs vfs.FS) (*server.Server, *client.Client) {
	t.Helper()
	cfg := server.Default()
	cfg.FS, cfg.DataDir, cfg.ClientAddr, cfg.PreallocBytes = fs, "/data", "127.0.0.1:0", 64<<10
	cfg.Auth.SuperDigest = auth.Digest("super:secret")
	s, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() { end(); <-ended })
	c, err := client.Dial(awaittest.Within(t), s.Addr().String(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return s, c
}

const superUser = "digest super:secret"

// TestASnapshotIsAWholeServer starts a server from nothing but the answer.
func TestASnapshotIsAWholeServer(t *testing.T) {
	s, c := serve(t, vfs.NewMem())
	port := httptest.NewServer(Handler(s, admin.Commands{}, "/commands", Copies{Enabled: true}))
	defer port.Close()
	ctx, data := awaittest.Within(t), bytes.Repeat([]byte("x"), 900_000)
	for _, path := range []string{"/a", "/b", "/c"} { // more than a portion
		if _, _, err := c.Create(ctx, path, data, client.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	response, body := ask(t, port.URL+"/commands/snapshot?streaming=true", "Authorization", superUser)
	zxid := response.Header.Get("last_zxid")
	if response.StatusCode != http.StatusOK || response.Header.Get("snapshot_size") != response.Header.Get("Content-Length") ||
		response.Header.Get("Content-Type") != "application/octet-stream" || !strings.HasPrefix(zxid, "0x") {
		t.Fatalf("%s %v", response.Status, response.Header)
	}

	fs := vfs.NewMem()
	if err := fs.MkdirAll("/data/version-2"); err != nil {
		t.Fatal(err)
	}
	file, err := fs.Create("/data/version-2/snapshot." + strings.TrimPrefix(zxid, "0x"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err = file.Write(body); err != nil {
		t.Fatal(err)
	}
	file.Close()
	_, restored := serve(t, fs)
	for _, path := range []string{"/a", "/b", "/c"} {
		if got, _, err := restored.Get(ctx, path); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: %d bytes, %v", path, len(got), err)
		}
	}
}

// TestSnapshotsAreForThoseWhoMayDoEverything compares with Apache's admin server, whose statuses
// these are.
func TestSnapshotsAreForThoseWhoMayDoEverything(t *testing.T) {
	s, c := serve(t, vfs.NewMem())
	port := httptest.NewServer(Handler(s, admin.Commands{}, "/commands", Copies{Enabled: true}))
	defer port.Close()
	most := zk.PermAll &^ zk.PermDelete
	list := []zk.ACL{
		{Perms: most, Identity: zk.Identity{Scheme: "digest", ID: auth.Digest("anna:a")}},
		{Perms: zk.PermAll, Identity: zk.Identity{Scheme: "digest", ID: auth.Digest("bert:b")}},
	}
	if _, err := c.SetACL(awaittest.Within(t), "/", list, -1); err != nil {
		t.Fatal(err)
	}
	for _, asked := range []struct {
		authorization string
		status        int
		says          string
	}{
		{"", http.StatusUnauthorized, "Auth info is missing for the command"},
		{"basic c3VwZXI6c2VjcmV0", http.StatusUnauthorized, "Not authenticated"},
		{"x509", http.StatusUnauthorized, "Not authenticated"},
		{"ip", http.StatusForbidden, "Not authorized"},
		{"digest anna:a", http.StatusForbidden, "Not authorized"},
		{"digest super:guess", http.StatusForbidden, "Not authorized"},
		{"digest bert:b", http.StatusOK, `"error": null`},
		{superUser, http.StatusOK, `"error": null`},
	} {
		response, body := ask(t, port.URL+"/commands/snap?streaming=false", "Authorization", asked.authorization)
		if response.StatusCode != asked.status || !strings.Contains(string(body), asked.says) || !strings.Contains(string(body), `"command": "snapshot"`) {
			t.Errorf("%q: %s %s", asked.authorization, response.Status, body)
		}
		if taken := response.Header.Get("last_zxid") != ""; taken != (asked.status == http.StatusOK) {
			t.Errorf("%q: last_zxid %q", asked.authorization, response.Header.Get("last_zxid"))
		}
	}
	if st := s.Status(); st.AuthFailed != 3 {
		t.Errorf("%d credentials failed, want 3: two proved nothing, one was a guess", st.AuthFailed)
	}
}

func TestSnapshotsAreLimited(t *testing.T) {
	s, _ := serve(t, vfs.NewMem())
	limited := 0
	for name, copies := range map[string]Copies{"disabled": {}, "seldom": {Enabled: true, Every: time.Hour, Limited: func() { limited++ }}} {
		port := httptest.NewServer(Handler(s, admin.Commands{}, "/commands", copies))
		defer port.Close()
		url, want := port.URL+"/commands/snapshot", http.StatusServiceUnavailable
		if copies.Enabled {
			want = http.StatusTooManyRequests
			if response, _ := ask(t, url, "Authorization", "digest x:y"); response.StatusCode != http.StatusOK { // everybody may do everything
				t.Errorf("%s: the first one: %s", name, response.Status)
			}
		}
		if response, body := ask(t, url, "Authorization", superUser); response.StatusCode != want || !strings.Contains(string(body), `"error": "`) {
			t.Errorf("%s: %s %s", name, response.Status, body)
		}
	}
	if limited != 1 {
		t.Errorf("%d requests were counted as too soon, want 1", limited)
	}
}

func TestPagesOfOtherSitesGetNoSnapshot(t *testing.T) {
	s, _ := serve(t, vfs.NewMem())
	port := httptest.NewServer(Handler(s, admin.Commands{}, "/commands", Copies{Enabled: true}))
	defer port.Close()
	if code, text := get(t, port.URL+"/commands/snapshot", "Authorization", superUser, "Sec-Fetch-Site", "cross-site"); code != http.StatusForbidden {
		t.Errorf("%d %s", code, text)
	}
}

func TestOneSnapshotIsTakenAtATime(t *testing.T) {
	s, _ := serve(t, vfs.NewMem())
	c := &copier{Copies: Copies{Enabled: true, Every: time.Hour}, server: s}
	port := httptest.NewServer(c)
	defer port.Close()
	c.taking.Lock()
	if response, body := ask(t, port.URL, "Authorization", superUser); response.StatusCode != http.StatusTooManyRequests {
		t.Errorf("beside another: %s %s", response.Status, body)
	}
	c.taking.Unlock()
	response, body := ask(t, port.URL, "Authorization", superUser)
	if size := strconv.Itoa(len(body)); response.StatusCode != http.StatusOK || response.Header.Get("snapshot_size") != size {
		t.Errorf("after that, without streaming=true: %s %s", response.Status, body)
	}
}
