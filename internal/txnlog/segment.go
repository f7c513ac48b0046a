package txnlog

import (
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// namePrefix begins the name of every segment.
const namePrefix = "log."

// reserveName is the name of the segment that is prepared before its first zxid is known.
// ZooKeeper ignores the name. What the file holds was never acknowledged.
const reserveName = "reserve"

// Segment is one file of the log.
type Segment struct {
	Name  string // without the directory
	First zk.Zxid
}

// SegmentName returns the file name of the segment whose first record is zxid.
func SegmentName(zxid zk.Zxid) string {
	return namePrefix + strconv.FormatUint(uint64(zxid), 16)
}

// ParseSegmentName reads a name of the form log.<hex zxid>. A number with the
// top bit set is not a zxid.
func ParseSegmentName(name string) (zk.Zxid, bool) {
	digits, ok := strings.CutPrefix(name, namePrefix)
	if !ok {
		return 0, false
	}
	zxid, err := strconv.ParseUint(digits, 16, 63)
	return zk.Zxid(zxid), err == nil
}

// Segments lists the segments in dir in the order of their first zxids. Other files are
// ignored.
func Segments(fsys vfs.FS, dir string) ([]Segment, error) {
	names, err := fsys.List(dir)
	if err != nil {
		return nil, err
	}
	var segments []Segment
	for _, name := range names {
		if first, ok := ParseSegmentName(name); ok {
			segments = append(segments, Segment{Name: name, First: first})
		}
	}
	sort.SliceStable(segments, func(i, j int) bool { return segments[i].First < segments[j].First })
	return segments, nil
}

// There returns an error if the file that the next records go to has lost its name.
func (l *Log) There() error {
	if l.reserve != nil {
		if err := vfs.Leads(filepath.Join(l.dir, reserveName), l.reserve); err != nil {
			return err
		}
	}
	if l.file == nil {
		return nil
	}
	return vfs.Leads(l.name, l.file)
}

// covering drops the segments that end before the record after after: all except the last one
// whose first zxid is not greater than after, and those that follow it.
func covering(segments []Segment, after zk.Zxid) []Segment {
	from := sort.Search(len(segments), func(i int) bool { return segments[i].First > after })
	return segments[max(from-1, 0):]
}

// Purge deletes the segments that hold nothing after limit: those before the last one whose
// first zxid is not greater than limit. The newest always stays. It returns the deleted names;
// on an error, those deleted so far.
func Purge(fsys vfs.FS, dir string, limit zk.Zxid) ([]string, error) {
	segments, err := Segments(fsys, dir)
	if err != nil || len(segments) == 0 {
		return nil, err
	}
	var deleted []string
	for i, segment := range segments[:len(segments)-len(covering(segments, limit))] {
		// A deleted segment may reappear after a power loss. It must not do so without those
		// after it if a later epoch follows, because ZooKeeper's files do not say what the
		// first record of an epoch follows.
		if i > 0 && segments[i+1].First.Counter() == 1 {
			if err := fsys.SyncDir(dir); err != nil {
				return deleted, err
			}
		}
		if err := fsys.Remove(filepath.Join(dir, segment.Name)); err != nil {
			return deleted, err
		}
		deleted = append(deleted, segment.Name)
	}
	return deleted, nil
}
