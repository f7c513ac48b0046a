package txnlog

import (
	"encoding/binary"
	"io"
	"path/filepath"
	"slices"
	"testing"

	"github.com/conclave-project/conclave/zk"
)

// A single malformed write of any client leaves such a record in the log of each of Apache's
// servers, and no other kind of record may have the zxid of the record before.
func TestRefusalUnderTheZxidBeforeIsSkipped(t *testing.T) {
	type logged struct {
		zxid zk.Zxid
		op   zk.Op
	}
	for name, c := range map[string]struct {
		segments [][]logged
		after    zk.Zxid
		want     []zk.Zxid // nil: damaged
	}{
		"inside":           {[][]logged{{{1, zk.OpCreateSession}, {2, zk.OpCloseSession}, {2, zk.OpError}, {3, zk.OpCloseSession}}}, 0, []zk.Zxid{1, 2, 3}},
		"twice":            {[][]logged{{{1, zk.OpError}, {1, zk.OpError}, {1, zk.OpError}, {2, zk.OpError}}}, 0, []zk.Zxid{1, 2}},
		"at the end":       {[][]logged{{{1, zk.OpCreateSession}, {1, zk.OpError}}}, 0, []zk.Zxid{1}},
		"in a segment":     {[][]logged{{{1, zk.OpCreateSession}, {2, zk.OpCloseSession}}, {{2, zk.OpError}, {3, zk.OpError}}}, 0, []zk.Zxid{1, 2, 3}},
		"after a snapshot": {[][]logged{{{1, zk.OpCreateSession}, {2, zk.OpCloseSession}, {2, zk.OpError}, {3, zk.OpError}}}, 2, []zk.Zxid{3}},
		"no refusal":       {[][]logged{{{1, zk.OpCreateSession}, {2, zk.OpCloseSession}, {2, zk.OpCloseSession}}}, 0, nil},
		"not the last":     {[][]logged{{{1, zk.OpCreateSession}, {2, zk.OpCloseSession}, {1, zk.OpError}}}, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			disk := newDisk(t)
			for _, segment := range c.segments {
				text := segmentHead()
				for _, l := range segment {
					p := make([]byte, 36)
					binary.BigEndian.PutUint64(p[payloadZxidOffset:], uint64(l.zxid))
					binary.BigEndian.PutUint32(p[payloadOpOffset:], uint32(l.op))
					text = appendRecord(text, p)
				}
				file, err := disk.Create(filepath.Join(dir, SegmentName(segment[0].zxid)))
				must(t, err)
				_, err = file.Write(text)
				must(t, err)
				must(t, file.Close())
			}
			reader, err := NewReader(disk, dir, c.after, ReadOptions{})
			must(t, err)
			defer reader.Close()
			var got []zk.Zxid
			for {
				record, err := reader.Next()
				if err == io.EOF {
					break
				}
				if err != nil {
					if c.want != nil {
						t.Fatal(err)
					}
					return
				}
				got = append(got, record.Zxid)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("read %v, want %v", got, c.want)
			}
		})
	}
}
