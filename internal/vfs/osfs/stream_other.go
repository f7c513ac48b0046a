//go:build !linux

package osfs

import "github.com/conclave-project/conclave/internal/vfs"

// CreateStream implements vfs.Streams with an ordinary file, synced in portions.
func (fs FS) CreateStream(name string) (vfs.Stream, error) {
	f, err := fs.Create(name)
	if err != nil {
		return nil, err
	}
	return vfs.Portions(f), nil
}
