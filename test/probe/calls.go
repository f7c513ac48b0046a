package probe

import (
	"errors"
	"fmt"
	"sort"
	"strings"
)

// An ACL is one entry of a znode's ACL. Perms: 1 read, 2 write, 4 create, 8 delete, 16
// admin.
type ACL struct {
	Perms      int32
	Scheme, ID string
}

// World grants everybody all permissions.
var World = []ACL{{31, "world", "anyone"}}

// A Stat is a znode's stat, in the protocol's order.
type Stat struct {
	Czxid, Mzxid, Ctime, Mtime  int64
	Version, Cversion, Aversion int32
	EphemeralOwner              int64
	DataLength, NumChildren     int32
	Pzxid                       int64
}

// Create modes: the flags of a create.
const (
	Persistent           = 0
	Ephemeral            = 1
	PersistentSequential = 2
	EphemeralSequential  = 3
	Container            = 4
	PersistentTTL        = 5
)

// CreateBody returns the body of a create, for OpCreate, OpCreate2 and OpCreateContainer.
func CreateBody(path string, data []byte, acl []ACL, flags int32) []byte {
	var e encoder
	e.string(path)
	e.buffer(data)
	e.acl(acl)
	e.int32(flags)
	return e.bytes
}

// Create creates a znode and returns its path.
func (c *Conn) Create(path string, data []byte, acl []ACL, flags int32) (string, error) {
	op := int32(OpCreate)
	if flags == Container {
		op = OpCreateContainer
	}
	body, err := c.Call(op, CreateBody(path, data, acl, flags))
	d := decoder{body, nil}
	if err == nil {
		path, err = d.string(), d.err
	}
	return path, err
}

// CreateTTL creates a znode that is deleted when it is older than ttlMs and has no
// children.
func (c *Conn) CreateTTL(path string, data []byte, acl []ACL, ttlMs int64) error {
	var e encoder
	e.bytes = CreateBody(path, data, acl, PersistentTTL)
	e.int64(ttlMs)
	_, err := c.Call(OpCreateTTL, e.bytes)
	return err
}

// PathVersionBody returns the body of a delete or a check.
func PathVersionBody(path string, version int32) []byte {
	var e encoder
	e.string(path)
	e.int32(version)
	return e.bytes
}

// Delete removes a znode.
func (c *Conn) Delete(path string, version int32) error {
	_, err := c.Call(OpDelete, PathVersionBody(path, version))
	return err
}

// SetDataBody returns the body of a setData.
func SetDataBody(path string, data []byte, version int32) []byte {
	var e encoder
	e.string(path)
	e.buffer(data)
	e.int32(version)
	return e.bytes
}

// SetData changes a znode's data.
func (c *Conn) SetData(path string, data []byte, version int32) error {
	_, err := c.Call(OpSetData, SetDataBody(path, data, version))
	return err
}

// SetACL changes a znode's ACL.
func (c *Conn) SetACL(path string, acl []ACL, version int32) error {
	var e encoder
	e.string(path)
	e.acl(acl)
	e.int32(version)
	_, err := c.Call(OpSetACL, e.bytes)
	return err
}

// PathWatchBody returns the body of a read that may set a watch.
func PathWatchBody(path string, watch bool) []byte {
	var e encoder
	e.string(path)
	e.bool(watch)
	return e.bytes
}

// GetData reads a znode.
func (c *Conn) GetData(path string) ([]byte, Stat, error) {
	body, err := c.Call(OpGetData, PathWatchBody(path, false))
	if err != nil {
		return nil, Stat{}, err
	}
	d := decoder{body, nil}
	data := d.buffer()
	return data, d.stat(), d.err
}

// Exists reads a znode's stat.
func (c *Conn) Exists(path string) (Stat, error) {
	body, err := c.Call(OpExists, PathWatchBody(path, false))
	if err != nil {
		return Stat{}, err
	}
	d := decoder{body, nil}
	return d.stat(), d.err
}

// Children returns the names of a znode's children, sorted.
func (c *Conn) Children(path string) ([]string, error) {
	body, err := c.Call(OpGetChildren2, PathWatchBody(path, false))
	if err != nil {
		return nil, err
	}
	d := decoder{body, nil}
	names := d.strings()
	sort.Strings(names)
	return names, d.err
}

// GetACL reads a znode's ACL.
func (c *Conn) GetACL(path string) ([]ACL, error) {
	var e encoder
	e.string(path)
	body, err := c.Call(OpGetACL, e.bytes)
	if err != nil {
		return nil, err
	}
	d := decoder{body, nil}
	return d.acl(), d.err
}

// Ephemerals returns the paths of this session's ephemerals, sorted.
func (c *Conn) Ephemerals() ([]string, error) {
	var e encoder
	e.string("")
	body, err := c.Call(OpGetEphemerals, e.bytes)
	if err != nil {
		return nil, err
	}
	d := decoder{body, nil}
	paths := d.strings()
	sort.Strings(paths)
	return paths, d.err
}

// Ping keeps the session alive.
func (c *Conn) Ping() error {
	_, err := c.Call(OpPing, nil)
	return err
}

// AddAuth adds an identity, such as "digest", "user:password".
func (c *Conn) AddAuth(scheme, auth string) error {
	var e encoder
	e.int32(0)
	e.string(scheme)
	e.string(auth)
	_, err := c.Call(OpAuth, e.bytes)
	return err
}

// A Change is one operation of a multi: its op code and body.
type Change struct {
	Op   int32
	Body []byte
}

// MultiBody returns the body of a multi.
func MultiBody(changes ...Change) []byte {
	var e encoder
	header := func(op int32, done bool) {
		e.int32(op)
		e.bool(done)
		e.int32(-1)
	}
	for _, change := range changes {
		header(change.Op, false)
		e.bytes = append(e.bytes, change.Body...)
	}
	header(-1, true)
	return e.bytes
}

// Multi carries out all changes or none. The error is the code of the change
// that failed.
func (c *Conn) Multi(changes ...Change) error {
	body, err := c.Call(OpMulti, MultiBody(changes...))
	if err != nil {
		return err
	}
	return MultiError(body)
}

// MultiError returns the code of the change that failed in a multi's reply: the first code
// that is neither success nor "not tried because another failed".
func MultiError(body []byte) error {
	d := decoder{body, nil}
	for range 1 << 16 {
		op, done, code := d.int32(), d.take(1)[0] != 0, Code(d.int32())
		switch {
		case d.err != nil:
			return fmt.Errorf("probe: multi: %w", d.err)
		case done:
			return nil
		case op != -1:
			return nil // the first result shows that the multi has succeeded
		}
		d.int32() // the code again, as the body of an error result
		if code != 0 && code != -2 {
			return code
		}
	}
	return errors.New("probe: multi: no end")
}

// Tree returns all znodes from path down, by path. Two servers have the same tree if these
// maps are equal.
func (c *Conn) Tree(path string) (map[string]Znode, error) {
	tree := map[string]Znode{}
	return tree, c.walk(path, tree)
}

// A Znode is everything that a server reports about a znode.
type Znode struct {
	Data string
	Null bool // the data is null, which is not the same as empty
	Stat Stat
	ACL  []ACL
}

func (c *Conn) walk(path string, tree map[string]Znode) error {
	data, stat, err := c.GetData(path)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	acl, err := c.GetACL(path)
	if err != nil {
		return fmt.Errorf("read the ACL of %s: %w", path, err)
	}
	tree[path] = Znode{string(data), data == nil, stat, acl}
	children, err := c.Children(path)
	if err != nil {
		return fmt.Errorf("list %s: %w", path, err)
	}
	for _, name := range children {
		if err := c.walk(strings.TrimSuffix(path, "/")+"/"+name, tree); err != nil {
			return err
		}
	}
	return nil
}
