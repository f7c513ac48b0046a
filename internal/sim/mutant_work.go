package sim

import (
	"errors"
	"io"
	"path/filepath"
	"strings"

	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// mutateOptions changes the settings of a mutant's servers with odd places, so that the
// only one with the bug may be the leader or not.
func (p *process) mutateOptions(o replica.Options) replica.Options {
	switch w := p.w; {
	case w.is(QuotaNotEnforced) && p.place%2 == 1:
		o.Prep.EnforceQuota = false
	case w.is(ACLNotChecked) && p.place%2 == 1:
		o.Auth.SkipACL = true
	case w.is(UnusedContainerReaped):
		o.ContainerUnusedMs = 1
	}
	return o
}

// mutateAsked changes a client's request before the server sees it.
func (c *port) mutateAsked(e *replica.Event) {
	switch w := c.p.w; {
	case w.is(TTLTooShort) && e.Request.Op == zk.OpCreateTTL:
		e.Request.TTL = max(e.Request.TTL/10, 1)
	case w.is(IdentitiesLost) && c.p.random.oneIn(4):
		e.Identities = e.Identities[:1]
	case e.Request.Op == zk.OpAddWatch:
		if c.stays == nil {
			c.stays = map[string]zk.WatchMode{}
		}
		c.stays[e.Request.Path] = e.Request.Watches
	}
}

// mutateEvent reports whether a mutant reports an event.
func (c *port) mutateEvent(e *zk.Event) bool {
	mode, stays := c.stays[e.Path]
	switch w := c.p.w; {
	case w.is(StayingWatchOnce) && stays && mode == zk.WatchPersistent:
		told := c.told[e.Path]
		if c.told == nil {
			c.told = map[string]bool{}
		}
		c.told[e.Path] = true
		return !told
	case w.is(RecursiveWatchShallow):
		parent, above := c.stays[zk.ParentPath(e.Path)]
		return !above || parent != zk.WatchPersistentRecursive
	}
	return true
}

// mutateTouches changes what a mutant learner reports of sessions.
func (p *process) mutateTouches(m *zab.Message) {
	for i := range m.Touches {
		switch t := &m.Touches[i]; {
		case p.w.is(TimeoutHalved):
			t.TimeoutMs /= 2
		case p.w.is(TimeoutDoubled):
			t.TimeoutMs *= 2
		case p.w.is(TimeoutsMixed):
			t.TimeoutMs = m.Touches[0].TimeoutMs
		}
	}
}

// deaf is a file system that takes an error in reading the log for its end.
type deaf struct{ vfs.FS }

// Open implements vfs.FS.
func (d deaf) Open(name string) (vfs.File, error) {
	f, err := d.FS.Open(name)
	if err != nil || !strings.HasPrefix(filepath.Base(name), "log.") {
		return f, err
	}
	return &deafFile{File: f}, nil
}

type deafFile struct{ vfs.File }

func (f *deafFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	if errors.Is(err, errInjected) {
		return n, io.EOF
	}
	return n, err
}
