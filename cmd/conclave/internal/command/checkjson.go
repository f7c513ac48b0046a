package command

import (
	"strconv"

	"github.com/conclave-project/conclave/internal/datadir"
	"github.com/conclave-project/conclave/internal/snap"
)

// checked is a report as JSON, with zxids and digests in the same form as in all other
// commands.
type checked struct {
	*datadir.Report
	Snapshots []checkedSnapshot `json:"snapshots"`
	Segments  []checkedSegment  `json:"logs"`
	Last      string            `json:"last"`
}

type checkedSnapshot struct {
	*datadir.SnapshotReport
	Info checkedInfo `json:"info"`
}

type checkedInfo struct {
	*snap.Info
	DigestZxid string `json:"digestZxid,omitempty"`
	Digest     string `json:"digest,omitempty"`
	Last       string `json:"last,omitempty"`
}

type checkedSegment struct {
	*datadir.SegmentReport
	First string `json:"first,omitempty"`
	Last  string `json:"last,omitempty"`
}

func newChecked(r *datadir.Report) checked {
	c := checked{Report: r, Last: r.Last.String(), Snapshots: []checkedSnapshot{}, Segments: []checkedSegment{}}
	for i := range r.Snapshots {
		s := &r.Snapshots[i]
		info := checkedInfo{Info: &s.Info}
		if s.Info.Digest.Version != 0 {
			info.DigestZxid, info.Digest = s.Info.DigestZxid.String(), strconv.FormatUint(s.Info.Digest.Value, 10)
		}
		if s.Info.Last >= 0 {
			info.Last = s.Info.Last.String()
		}
		c.Snapshots = append(c.Snapshots, checkedSnapshot{s, info})
	}
	for i := range r.Segments {
		s := &r.Segments[i]
		one := checkedSegment{SegmentReport: s}
		if s.Records > 0 {
			one.First, one.Last = s.First.String(), s.Last.String()
		}
		c.Segments = append(c.Segments, one)
	}
	return c
}
