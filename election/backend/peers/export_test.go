package peers

import "github.com/conclave-project/conclave/internal/vfs"

// Cut ends all connections of this member and lets no new one come to be.
func (b *Backend) Cut() {
	b.cut.Store(true)
	b.post(func() {
		for _, l := range b.links {
			l.close()
		}
	})
}

// Heal lets connections come to be again.
func (b *Backend) Heal() { b.cut.Store(false) }

// Links is how many connections there are.
func (b *Backend) Links() (n int) {
	_ = b.call(b.life, func() { n = len(b.links) })
	return n
}

// StateFile is where this member keeps its votes.
func (b *Backend) StateFile() string { return b.store.dir + "/" + stateName }

// NewOn starts a member on another disk than this machine's.
func NewOn(options Options, disk vfs.FS) (*Backend, error) { return start(options, disk) }
