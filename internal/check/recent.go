package check

import "github.com/conclave-project/conclave/zk"

// Recent checks that writes take place between their request and their reply, and that a
// read after a sync is not older than the sync. It uses the order of zxids as the witness;
// together this is linearizability.
type Recent struct {
	newest zk.Zxid
}

// Shown says that somebody has shown zxid to a client.
func (r *Recent) Shown(zxid zk.Zxid) { r.newest = max(r.newest, zxid) }

// Floor returns the zxid below which the result of a request that begins now must not be.
func (r *Recent) Floor() zk.Zxid { return r.newest }

// Wrote says that a write whose request was sent at floor was given zxid.
func (r *Recent) Wrote(floor, zxid zk.Zxid) error {
	if zxid <= floor {
		return broken("recent", "a write has %s, and %s was shown before it was asked for", number(zxid), number(floor))
	}
	r.Shown(zxid)
	return nil
}

// Read says that a read after a sync, which was requested at floor, has shown zxid.
func (r *Recent) Read(floor, zxid zk.Zxid) error {
	if zxid < floor {
		return broken("recent", "a read after a sync shows %s, and %s was shown before the sync was asked for", number(zxid), number(floor))
	}
	r.Shown(zxid)
	return nil
}
