package adminport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/httpport"
	"github.com/conclave-project/conclave/internal/admin"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// Copies has the settings of the command snapshot.
type Copies struct {
	Enabled bool          // it is answered
	Every   time.Duration // that must pass between two snapshots; 0 is none
	Limited func()        // called for each request that comes too soon; may be nil
}

// copier answers the command snapshot (adminport-P6).
type copier struct {
	Copies
	server *server.Server
	taking sync.Mutex // held while the server takes a snapshot
	next   time.Time  // when the next one may be taken
}

// copyNames are the names of the command; the first one is used in the answer.
var copyNames = []string{"snapshot", "snap"}

// A file is sent in portions. Each one has its own time, so the time that a file takes depends
// on its size.
const (
	portionBytes = 1 << 20
	portionTime  = 30 * time.Second
)

// ServeHTTP takes a snapshot, and answers with its file, or, with streaming=false, without it.
func (c *copier) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if why := httpport.Foreign(r); why != "" {
		http.Error(w, why, http.StatusForbidden)
		return
	}
	if status, why := c.refuse(r); why != "" {
		answerCopy(w, status, why)
		return
	}
	connection := http.NewResponseController(w)
	_ = connection.SetReadDeadline(time.Time{}) // otherwise the context ends when a request may no longer be read
	zxid, file, err := c.take(r.Context())
	_ = connection.SetWriteDeadline(time.Now().Add(portionTime))
	switch {
	case errors.Is(err, errTooSoon), errors.Is(err, server.ErrSnapshotBusy):
		if c.Limited != nil {
			c.Limited()
		}
		answerCopy(w, http.StatusTooManyRequests, err.Error())
		return
	case err != nil:
		answerCopy(w, http.StatusInternalServerError, err.Error())
		return
	}
	defer file.Close()
	size, err := file.Size()
	if err != nil {
		answerCopy(w, http.StatusInternalServerError, err.Error())
		return
	}
	w.Header()["last_zxid"] = []string{zxid.String()} // as Apache's server writes it
	w.Header()["snapshot_size"] = []string{strconv.FormatInt(size, 10)}
	if query := r.URL.Query(); query.Has("streaming") && !strings.EqualFold(query.Get("streaming"), "true") {
		answerCopy(w, http.StatusOK, "")
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	for err == nil {
		_ = connection.SetWriteDeadline(time.Now().Add(portionTime))
		_, err = io.CopyN(w, file, portionBytes)
	}
}

var errTooSoon = errors.New("a snapshot was taken less than admin.rateLimiterIntervalInMS ago")

// take takes a snapshot. At most one request waits for the server, and only a snapshot that was
// taken keeps the next one waiting.
func (c *copier) take(ctx context.Context) (zxid zk.Zxid, file vfs.File, err error) {
	if !c.taking.TryLock() {
		return 0, nil, server.ErrSnapshotBusy
	}
	defer c.taking.Unlock()
	now := time.Now()
	if now.Before(c.next) {
		return 0, nil, fmt.Errorf("%w: ask again in %v", errTooSoon, c.next.Sub(now).Round(time.Second))
	}
	if zxid, file, err = c.server.Snapshot(ctx); err == nil {
		c.next = now.Add(c.Every)
	}
	return zxid, file, err
}

// refuse returns why a request gets no snapshot, with the status; "" if it gets one.
func (c *copier) refuse(r *http.Request) (status int, why string) {
	if !c.Enabled {
		return http.StatusServiceUnavailable, "snapshots are disabled: set admin.snapshot.enabled=true"
	}
	if c.server.Role().Mode == server.ModeLooking {
		return http.StatusOK, admin.NotServing
	}
	given := r.Header.Get("Authorization")
	if given == "" {
		return http.StatusUnauthorized, "Auth info is missing for the command: send the header Authorization: digest USER:PASSWORD"
	}
	scheme, credential, _ := strings.Cut(given, " ")
	client, err := netip.ParseAddrPort(r.RemoteAddr)
	if err == nil {
		err = c.server.MayCopy(scheme, []byte(credential), client)
	}
	switch {
	case errors.Is(err, zk.ErrNoAuth):
		return http.StatusForbidden, "Not authorized: a snapshot needs all permissions on /"
	case err != nil:
		return http.StatusUnauthorized, "Not authenticated: the header Authorization proves an identity here, such as digest USER:PASSWORD"
	}
	return 0, ""
}

// answerCopy answers without a file; problem is "" if there is none.
func answerCopy(w http.ResponseWriter, status int, problem string) {
	fields := admin.Fields{{Name: "command", Value: copyNames[0]}, {Name: "error"}}
	if problem != "" {
		fields[1].Value = problem
	}
	text, err := encode(fields)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	write(w, status, text)
}
