// Package snap writes and loads ZooKeeper's snapshot files: the sessions, the ACLs and all
// znodes at approximately one zxid.
//
// An Encoder takes values, one call each, in the order of the format; a load passes the same
// values to a Sink. A snapshot may be fuzzy: if it was taken while transactions went on, it has
// every change at or below the zxid in its name and may have any later change.
//
// What always holds, by number, so that code and tests can name it:
//
//	snap-P1  A file gets its final name only when its content is durable:
//	         neither a crash nor an error leaves a partial file under a final
//	         name.
//	snap-P2  A load succeeds only when every length fits, every seal is right
//	         and not a byte is left over. Before that nothing of it may be used.
//	snap-P3  What is left of the file after the znodes decides which sections it
//	         has, never an option: servers with different options share
//	         directories.
//	snap-P4  A load takes memory for one znode at a time, within the limit of a
//	         buffer, or for four parts of small ones, whatever the file claims.
//
// The package knows nothing about the tree. It starts no goroutine except through a function
// that it is given, and reads no clock.
package snap

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// The layout of a snapshot, big endian, before compression:
//
//	header    int32 magic "ZKSN", int32 version 2, int64 dbid -1
//	sessions  int32 count, count * (int64 session, int32 timeout ms)
//	acls      int32 count, count * (int64 id, vector of ACL)
//	znodes    (ustring path, buffer data, int64 acl id, stat of 60 bytes)*, ustring "/"
//	seal      int64 Adler-32 of every byte so far, ustring "/"
//	digest    int64 zxid, int32 version, int64 digest, seal            since 3.6
//	last      int64 zxid, seal                                         since 3.9
//
// Servers send each other only sessions, acls and znodes.
const (
	magic            = 0x5a4b534e
	version          = 2
	dbid             = -1
	statBytes        = 60
	sealBytes        = 13
	digestPartBytes  = 20 + sealBytes
	lastPartBytes    = 8 + sealBytes
	tailBytesMax     = digestPartBytes + lastPartBytes
	sessionBytes     = 12
	aclBytesMin      = 12 // perms and two empty strings
	endMark          = "/"
	namePrefix       = "snapshot."
	tempPrefix       = "tmp."
	bufferBytesLimit = 0xfffff + 0xfffff // jute.maxbuffer and its extra size
)

// Compression is how the stream of a snapshot is compressed; the end of the file's name says
// which one it is.
type Compression string

// The compressions of ZooKeeper 3.6 and later, by the value of
// zookeeper.snapshot.compression.method.
const (
	Plain  Compression = ""
	Gzip   Compression = "gz"
	Snappy Compression = "snappy"
)

// Valid reports whether c is known.
func (c Compression) Valid() bool { return c == Plain || c == Gzip || c == Snappy }

// File is one snapshot in a directory.
type File struct {
	Name        string // without the directory
	Zxid        zk.Zxid
	Compression Compression
}

// Name returns the file name of a snapshot of zxid.
func Name(zxid zk.Zxid, c Compression) string {
	name := namePrefix + strconv.FormatUint(uint64(zxid), 16)
	if c != Plain {
		name += "." + string(c)
	}
	return name
}

// ParseName reads a name of the form snapshot.<hex zxid>[.gz|.snappy]. A number
// with the top bit set is not a zxid.
func ParseName(name string) (File, bool) {
	rest, ok := strings.CutPrefix(name, namePrefix)
	if !ok {
		return File{}, false
	}
	digits, suffix, _ := strings.Cut(rest, ".")
	zxid, err := strconv.ParseUint(digits, 16, 63)
	c := Compression(suffix)
	if err != nil || !c.Valid() || c == Plain && strings.HasSuffix(name, ".") {
		return File{}, false
	}
	return File{Name: name, Zxid: zk.Zxid(zxid), Compression: c}, true
}

// Files lists the snapshots in dir, newest first; of several with one zxid the uncompressed one
// comes first. Other files are ignored.
func Files(fsys vfs.FS, dir string) ([]File, error) {
	names, err := fsys.List(dir)
	if err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	var files []File
	for _, name := range names {
		if file, ok := ParseName(name); ok {
			files = append(files, file)
		}
	}
	sort.SliceStable(files, func(i, j int) bool {
		if files[i].Zxid != files[j].Zxid {
			return files[i].Zxid > files[j].Zxid
		}
		return files[i].Compression < files[j].Compression
	})
	return files, nil
}

// IsTemp reports whether a name is that of a file left by an unfinished Writer.
func IsTemp(name string) bool { return strings.HasPrefix(name, tempPrefix+namePrefix) }
