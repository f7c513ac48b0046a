package shell

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/zk"
)

// refusals are zkCli.sh's texts for requests that a server refused. The path is appended.
var refusals = map[zk.Code]string{
	zk.ErrNoNode:                  "Node does not exist: ",
	zk.ErrNodeExists:              "Node already exists: ",
	zk.ErrNotEmpty:                "Node not empty: ",
	zk.ErrNoChildrenForEphemerals: "Ephemerals cannot have children: ",
	zk.ErrNotReadOnly:             "Not a read-only call: ",
	zk.ErrInvalidACL:              "Acl is not valid : ",
	zk.ErrNoAuth:                  "Insufficient permission : ",
	zk.ErrBadVersion:              "version No is not valid : ",
	zk.ErrQuotaExceeded:           "Quota has exceeded : ",
}

// refused is a failed request, described in zkCli.sh's text.
type refused struct {
	text string
	err  error
}

func (r *refused) Error() string { return r.text }
func (r *refused) Unwrap() error { return r.err }

// explain returns the error of a request about a path, in zkCli.sh's text if it has one.
func explain(err error, path string) error {
	var code zk.Code
	if !errors.As(err, &code) {
		return err
	}
	if text, ok := refusals[code]; ok && path != "" {
		return &refused{text + cli.Visible(path), err}
	}
	return err
}

// statText returns a znode's stat as text. Times are in this machine's time zone and in
// Java's format.
func statText(s zk.Stat) string {
	at := func(ms int64) string { return time.UnixMilli(ms).Format("Mon Jan 02 15:04:05 MST 2006") }
	return fmt.Sprintf("cZxid = %s\nctime = %s\nmZxid = %s\nmtime = %s\npZxid = %s\ncversion = %d\ndataVersion = %d\n"+
		"aclVersion = %d\nephemeralOwner = 0x%x\ndataLength = %d\nnumChildren = %d\n",
		s.Czxid, at(s.Ctime), s.Mzxid, at(s.Mtime), s.Pzxid, s.Cversion, s.Version,
		s.Aversion, uint64(s.EphemeralOwner), s.DataLength, s.NumChildren)
}

// list returns names as Java prints a list of them.
func list(names []string) string {
	shown := make([]string, len(names))
	for i, one := range names {
		shown[i] = cli.Visible(one)
	}
	return "[" + strings.Join(shown, ", ") + "]"
}
