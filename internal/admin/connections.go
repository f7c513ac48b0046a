package admin

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/watch"
	"github.com/conclave-project/conclave/zk"
)

// opCodes are the short names of operations in connection lines.
var opCodes = map[zk.Op]string{
	zk.OpCreateSession: "SESS", zk.OpPing: "PING", zk.OpCreate: "CREA", zk.OpCreate2: "CREA",
	zk.OpCreateContainer: "CREA", zk.OpCreateTTL: "CREA", zk.OpDelete: "DELE", zk.OpExists: "EXIS",
	zk.OpGetData: "GETD", zk.OpSetData: "SETD", zk.OpGetACL: "GETA", zk.OpSetACL: "SETA",
	zk.OpGetChildren: "GETC", zk.OpGetChildren2: "GETC", zk.OpGetAllChildrenNumber: "GETACN",
	zk.OpSync: "SYNC", zk.OpCheck: "CHEC", zk.OpMulti: "MULT", zk.OpMultiRead: "MLTR",
	zk.OpReconfig: "RECO", zk.OpCloseSession: "CLOS", zk.OpSetWatches: "SETW", zk.OpSetWatches2: "STW2",
	zk.OpAddWatch: "ADDW", zk.OpCheckWatches: "CHKW", zk.OpRemoveWatches: "REMW", zk.OpWhoAmI: "HOMI",
	zk.OpGetEphemerals: "GETE", zk.OpGetChildrenPage: "GETP",
}

func opCode(c *server.Conn) string {
	if !c.HasOp {
		return "SESS"
	}
	if code, ok := opCodes[c.LastOp]; ok {
		return code
	}
	return "NA"
}

// interest is what the server waits for on a connection, as a number: 1, which means something
// to read, as long as there is a session.
func interest(c *server.Conn) int { return oneIf(c.Session != 0) }

// line returns one connection as stat (brief) and cons (full) print it. The leading space
// matters to programs that parse it.
func line(c *server.Conn, full bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, " /%s[%d](queued=%d,recved=%d,sent=%d", c.Remote, interest(c), c.Queued, c.Received, c.Sent)
	if full && c.Session != 0 {
		now := time.Now()
		fmt.Fprintf(&b, ",sid=%s,lop=%s,est=%d,to=%d", c.Session, opCode(c), now.Add(-c.Since).UnixMilli(), c.TimeoutMs)
		if c.LastXid != -1 {
			fmt.Fprintf(&b, ",lcxid=0x%x", uint32(c.LastXid))
		}
		l := c.LatencyMs
		fmt.Fprintf(&b, ",lzxid=%s,lresp=%d,llat=%d,minlat=%d,avglat=%d,maxlat=%d", c.LastZxid,
			responded(c, now), l.Last, l.Min, l.Avg, l.Max)
	}
	b.WriteString(")\n")
	return b.String()
}

// responded returns the time of the last reply on a connection, in ms since 1970; 0 if there
// was none since its figures were reset.
func responded(c *server.Conn, now time.Time) int64 {
	if c.Responded < 0 {
		return 0
	}
	return now.Add(-c.Responded).UnixMilli()
}

func cons(_ Commands, s *server.Server) string {
	var b strings.Builder
	for _, c := range s.Conns() {
		b.WriteString(line(&c, true))
	}
	b.WriteString("\n")
	return b.String()
}

// dateForm is the form in which dump prints times.
const dateForm = "Mon Jan 02 15:04:05 MST 2006"

func dump(_ Commands, s *server.Server) string {
	d := s.Dump()
	var b strings.Builder
	b.WriteString("SessionTracker dump:\n")
	switch mode := s.Role().Mode; {
	case mode == server.ModeFollower || mode == server.ModeObserver:
		if s.Config().LocalSessions {
			dumpTracked(&b, "Local ", d.NowMs, d.Local)
		}
		dumpKnown(&b, &d)
	case s.Config().LocalSessions:
		dumpTracked(&b, "Local ", d.NowMs, d.Local)
		dumpTracked(&b, "Global ", d.NowMs, d.Buckets)
	default:
		dumpTracked(&b, "", d.NowMs, d.Buckets)
	}
	fmt.Fprintf(&b, "ephemeral nodes dump:\nSessions with Ephemerals (%d):\n", len(d.Ephemerals))
	for _, id := range slices.Sorted(maps.Keys(d.Ephemerals)) {
		fmt.Fprintf(&b, "%s:\n", id)
		for _, path := range d.Ephemerals[id] {
			fmt.Fprintf(&b, "\t%s\n", path)
		}
	}
	dumpConns(&b, s.Conns(), time.Now(), s.Config().HandshakeTime)
	if d.Left > 0 {
		fmt.Fprintf(&b, "%s%d ephemerals\n", LeftOut, d.Left)
	}
	return b.String()
}

// dumpConns lists the connections by the second in which they are closed if their clients stay silent.
func dumpConns(b *strings.Builder, conns []server.Conn, now time.Time, handshake time.Duration) {
	ends := map[int64][]server.Conn{}
	for _, c := range conns {
		at := now.Add(handshake - c.Since)
		if c.Session != 0 {
			silent := c.Responded
			if silent < 0 {
				silent = c.Since
			}
			at = now.Add(time.Duration(c.TimeoutMs)*time.Millisecond - silent)
		}
		second := at.Add(time.Second - 1).Unix()
		ends[second] = append(ends[second], c)
	}
	fmt.Fprintf(b, "Connections dump:\nConnections Sets (%d)/(%d):\n", len(ends), len(conns))
	for _, second := range slices.Sorted(maps.Keys(ends)) {
		fmt.Fprintf(b, "%d expire at %s:\n", len(ends[second]), time.Unix(second, 0).Format(dateForm))
		for _, c := range ends[second] {
			fmt.Fprintf(b, "\tip: /%s sessionId: %s\n", c.Remote, c.Session)
		}
	}
}

// dumpTracked lists the sessions whose expiry this server decides.
func dumpTracked(b *strings.Builder, which string, nowMs int64, buckets []session.Bucket) {
	total := 0
	for _, bucket := range buckets {
		total += len(bucket.Sessions)
	}
	fmt.Fprintf(b, "%sSession Sets (%d)/(%d):\n", which, len(buckets), total)
	for _, bucket := range buckets {
		at := time.Now().Add(time.Duration(bucket.EndsMs-nowMs) * time.Millisecond)
		fmt.Fprintf(b, "%d expire at %s:\n", len(bucket.Sessions), at.Format(dateForm))
		for _, id := range bucket.Sessions {
			fmt.Fprintf(b, "\t%s\n", id)
		}
	}
}

// dumpKnown lists the sessions of a learner, which the leader expires.
func dumpKnown(b *strings.Builder, d *server.Dump) {
	fmt.Fprintf(b, "Global Sessions(%d):\n", len(d.Sessions))
	for _, l := range d.Sessions {
		fmt.Fprintf(b, "%s\t%dms\n", l.ID, l.TimeoutMs)
	}
}

func wchs(_ Commands, s *server.Server) string {
	c := s.Watches().Counts()
	return fmt.Sprintf("%d connections watching %d paths\nTotal watches:%d\n", c.Conns, c.Paths, c.Data)
}

func wchc(_ Commands, s *server.Server) string {
	sessions := s.SessionOf()
	byConn, left := s.Watches().ByConn()
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(byConn)) {
		fmt.Fprintf(&b, "%s\n", sessions[id])
		for _, path := range byConn[id] {
			fmt.Fprintf(&b, "\t%s\n", oneLine(path))
		}
	}
	endWatches(&b, left)
	return b.String()
}

// PathsMax bounds the bytes of paths in a list of watches or ephemerals, plus 16 for each.
const PathsMax = watch.ReportBytesMax

// LeftOut begins the line that says how many watches or ephemerals a list has no space for.
const LeftOut = "left out: "

// oneLine returns a path that stays within its line. Names of znodes have no characters that
// end a line, but a client may wait for any text.
func oneLine(path string) string {
	ends := func(r rune) bool { return r < ' ' || r == 0x7f }
	if !strings.ContainsFunc(path, ends) {
		return path
	}
	return strings.Map(func(r rune) rune {
		if ends(r) {
			return unicode.ReplacementChar
		}
		return r
	}, path)
}

func endWatches(b *strings.Builder, left int) {
	if left > 0 {
		fmt.Fprintf(b, "%s%d watches\n", LeftOut, left)
	}
	b.WriteString("\n")
}

func wchp(_ Commands, s *server.Server) string {
	sessions := s.SessionOf()
	byPath, left := s.Watches().ByPath()
	var b strings.Builder
	for _, path := range slices.Sorted(maps.Keys(byPath)) {
		fmt.Fprintf(&b, "%s\n", oneLine(path))
		for _, id := range byPath[path] {
			fmt.Fprintf(&b, "\t%s\n", sessions[id])
		}
	}
	endWatches(&b, left)
	return b.String()
}
