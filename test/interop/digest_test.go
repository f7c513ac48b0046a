//go:build linux && interop

package interop

import (
	"encoding/binary"
	"fmt"
	"hash/adler32"
	"hash/crc32"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/test/probe"
)

// checkLoggedDigest compares the digest that the server has logged with its last txn with
// one computed here from the tree that a client sees.
func checkLoggedDigest(t *testing.T, who, dir string, tree map[string]probe.Znode) {
	t.Helper()
	logged, err := lastDigest(newestLog(t, dir))
	if err != nil {
		t.Errorf("%s: %v", who, err)
		return
	}
	if told := treeDigest(tree); logged != told {
		t.Errorf("%s: digest %x in the log, %x of the tree", who, logged, told)
	}
}

func newestLog(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "version-2", "log.*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no log in %s: %v", dir, err)
	}
	newest, highest := "", uint64(0)
	for _, file := range files {
		zxid, err := strconv.ParseUint(strings.TrimPrefix(filepath.Base(file), "log."), 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		if zxid >= highest {
			newest, highest = file, zxid
		}
	}
	return newest
}

// lastDigest reads a log to its end. The file has a header of 16 bytes, followed by
// records: an Adler-32 in 8 bytes, a length, that many bytes and a 'B'; the rest is zeros.
// The payload of a txn ends with its digest: the version 2, then 8 bytes.
func lastDigest(file string) (uint64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	if len(text) < 16 || string(text[:4]) != "ZKLG" {
		return 0, fmt.Errorf("%s: not a log", file)
	}
	var last []byte
	for rest := text[16:]; len(rest) > 12; {
		sum, n := binary.BigEndian.Uint64(rest), int(binary.BigEndian.Uint32(rest[8:]))
		if n == 0 {
			break
		}
		if n < 0 || 12+n+1 > len(rest) || rest[12+n] != 'B' || uint64(adler32.Checksum(rest[12:12+n])) != sum {
			return 0, fmt.Errorf("%s: bad record %d bytes before the end", file, len(rest))
		}
		last, rest = rest[12:12+n], rest[12+n+1:]
	}
	// A header alone is 32 bytes; the digest adds 12.
	if len(last) < 44 || binary.BigEndian.Uint32(last[len(last)-12:]) != 2 {
		return 0, fmt.Errorf("%s: the last txn has no digest: %x", file, last)
	}
	return binary.BigEndian.Uint64(last[len(last)-8:]), nil
}

// treeDigest returns the sum of a CRC-32 of each znode: path, data, stat. Znodes below
// /zookeeper do not count.
func treeDigest(tree map[string]probe.Znode) uint64 {
	var sum uint64
	for path, z := range tree {
		if strings.HasPrefix(path, "/zookeeper/") {
			continue
		}
		b := []byte(strings.TrimSuffix(path, "/") + z.Data)
		s := z.Stat
		for _, v := range []int64{s.Czxid, s.Mzxid, s.Pzxid, s.Ctime, s.Mtime} {
			b = binary.BigEndian.AppendUint64(b, uint64(v))
		}
		// The server stores the number of creates, but shows creates and deletes.
		stored := (s.Cversion + s.NumChildren) / 2
		for _, v := range []int32{s.Version, stored, s.Aversion} {
			b = binary.BigEndian.AppendUint32(b, uint32(v))
		}
		b = binary.BigEndian.AppendUint64(b, storedOwner(path, s))
		sum += uint64(crc32.ChecksumIEEE(b))
	}
	return sum
}

// storedOwner returns the ephemeral owner as it is stored. Clients do not see whether a
// znode is a container or has a TTL, so the path shows it.
func storedOwner(path string, s probe.Stat) uint64 {
	switch {
	case strings.HasSuffix(path, "/container"):
		return 1 << 63
	case strings.HasSuffix(path, "/ttl"):
		return 0xff<<56 | ttlMs
	}
	return uint64(s.EphemeralOwner)
}

func TestTheDigestOfTheEmptyTreeIsTheKnownOne(t *testing.T) {
	tree := map[string]probe.Znode{"/": {}, "/zookeeper": {}, "/zookeeper/config": {Data: "x"}}
	if sum := treeDigest(tree); sum != 0x51c6d660 {
		t.Fatalf("digest %x", sum)
	}
}
