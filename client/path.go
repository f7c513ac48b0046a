package client

import (
	"errors"
	"fmt"
	"strings"

	"github.com/conclave-project/conclave/zk"
)

// absolute converts a path of the program to a path of the server.
func (c *Client) absolute(path string) string {
	switch {
	case c.chroot == "":
		return path
	case path == zk.RootPath || path == "":
		return c.chroot
	}
	return c.chroot + path
}

// absoluteOf is absolute for the path of r. A sequential child of the root whose name is
// only a number keeps the slash at the end.
func (c *Client) absoluteOf(r *zk.Request) string {
	if r.Path == zk.RootPath && r.Op.IsCreate() && r.Mode.IsSequential() {
		return c.chroot + zk.RootPath
	}
	return c.absolute(r.Path)
}

// relative converts a path of the server to a path of the program.
func (c *Client) relative(path string) string {
	switch {
	case c.chroot == "":
		return path
	case path == c.chroot:
		return zk.RootPath
	case strings.HasPrefix(path, c.chroot+"/"):
		return path[len(c.chroot):]
	}
	return path
}

// mapRequest puts the chroot before every path of r.
func (c *Client) mapRequest(r *zk.Request) {
	if c.chroot == "" {
		return
	}
	switch r.Op {
	case zk.OpMulti, zk.OpMultiRead:
		r.Ops = append([]zk.Request(nil), r.Ops...)
		for i := range r.Ops {
			r.Ops[i].Path = c.absoluteOf(&r.Ops[i])
		}
	case zk.OpWhoAmI, zk.OpReconfig, zk.OpAuth, zk.OpCloseSession:
	default:
		r.Path = c.absoluteOf(r)
	}
}

// unmapResult removes the chroot from every path of a result.
func (c *Client) unmapResult(r *zk.Result) {
	if c.chroot == "" {
		return
	}
	switch {
	case r.Op.IsCreate() || r.Op == zk.OpSync:
		r.Path = c.relative(r.Path)
	case r.Op == zk.OpGetEphemerals:
		r.Children = c.inChroot(r.Children)
	}
	for i := range r.Sub {
		c.unmapResult(&r.Sub[i])
	}
}

// inChroot returns the paths below the chroot. A server compares getEphemerals' prefix by
// bytes, so "/app" also returns those of "/apple".
func (c *Client) inChroot(paths []string) []string {
	kept := paths[:0]
	for _, path := range paths {
		if c.chroot == "" || path == c.chroot || strings.HasPrefix(path, c.chroot+"/") {
			kept = append(kept, c.relative(path))
		}
	}
	return kept
}

// validate checks a path; that of a sequential znode may end in "/".
func validate(path string, sequential bool) error {
	if sequential {
		path += "1"
	}
	return zk.ValidatePath(path)
}

// submittable returns an error if r cannot be submitted.
func submittable(r *zk.Request) error {
	switch r.Op {
	case zk.OpAuth, zk.OpPing, zk.OpCloseSession, zk.OpSetWatches, zk.OpSetWatches2,
		zk.OpAddWatch, zk.OpRemoveWatches, zk.OpSASL:
		return fmt.Errorf("%s has a method of its own, or none", r.Op)
	case zk.OpReconfig:
		if r.Reconfig == nil {
			return errors.New("reconfig without Reconfig")
		}
	}
	if !r.Op.Known() {
		return fmt.Errorf("%s is not for clients", r.Op)
	}
	if r.Watch {
		return errors.New("a watch needs GetW, ExistsW or ChildrenW")
	}
	return validPaths(r)
}

// validPaths checks the paths of a request. A path without a leading slash would lead out
// of the chroot.
func validPaths(r *zk.Request) error {
	switch r.Op {
	case zk.OpMulti, zk.OpMultiRead:
		for i := range r.Ops {
			if err := validPaths(&r.Ops[i]); err != nil {
				return err
			}
		}
		return nil
	case zk.OpWhoAmI, zk.OpReconfig:
		return nil
	case zk.OpGetEphemerals: // it is a prefix, compared by bytes
		if !strings.HasPrefix(r.Path, zk.RootPath) {
			return fmt.Errorf("prefix %q must start with /", r.Path)
		}
		return nil
	}
	return validate(r.Path, r.Op.IsCreate() && r.Mode.IsSequential())
}

// fixedBytes is the most that the fixed-size fields of a request take: 32 with a header of
// eight, 33 as part of a multi.
const fixedBytes = 33

// requestBytes returns the size of r's frame without the length, or a few bytes more.
func requestBytes(r *zk.Request) int {
	n := fixedBytes + len(r.Path) + len(r.Data) + len(r.Scheme)
	for i := range r.ACL {
		n += 12 + len(r.ACL[i].Scheme) + len(r.ACL[i].ID)
	}
	for i := range r.Ops {
		n += requestBytes(&r.Ops[i])
	}
	return n
}

// isCode reports whether err is, or wraps, a code.
func isCode(err error, code zk.Code) bool { return err != nil && errors.Is(err, code) }

func isLoss(err error) bool { return errors.Is(err, zk.ErrConnectionLoss) }
