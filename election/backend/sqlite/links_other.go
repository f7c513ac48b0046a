//go:build !unix

package sqlite

import "os"

// links returns the number of a file's names, as far as it is known on this system.
func links(os.FileInfo) uint64 { return 1 }
