//go:build linux

package main

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"sort"
	"strings"
	"time"

	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// name returns the script's name for a session id.
func (r *run) name(id zk.SessionID) string {
	if name, ok := r.names[id]; ok {
		return name
	}
	return "unknown-session"
}

// reply returns a reply as text, normalised as far as diff-D3 allows.
func (r *run) reply(op zk.Op, h wire.ReplyHeader, body []byte) string {
	head := fmt.Sprintf("xid=%d zxid=%d err=%d", h.Xid, h.Zxid, h.Code)
	if h.Code != zk.OK {
		// To a multiRead that fails as a whole, Apache appends the results that it has;
		// clients ignore them. See docs/differences.md, "error bodies".
		if len(body) > 0 && op != zk.OpMultiRead {
			head += fmt.Sprintf(" body=%x", body)
		}
		return head
	}
	result, err := wire.DecodeResult(op, len(body), body)
	if err != nil {
		return fmt.Sprintf("%s undecodable=%x (%v)", head, body, err)
	}
	again := wire.AppendReply(nil, h, &result)[wire.PrefixBytes+wire.ReplyHeaderBytes:]
	if !bytes.Equal(again, body) { // diff-D4
		head += fmt.Sprintf(" raw=%x", body)
	}
	return head + r.result(&result)
}

func (r *run) result(t *zk.Result) string {
	switch t.Op {
	case zk.OpCreate, zk.OpSync:
		return fmt.Sprintf(" path=%q", t.Path)
	case zk.OpCreate2, zk.OpCreateContainer, zk.OpCreateTTL:
		return fmt.Sprintf(" path=%q%s", t.Path, r.stat(&t.Stat))
	case zk.OpExists, zk.OpSetData, zk.OpSetACL:
		return r.stat(&t.Stat)
	case zk.OpGetData, zk.OpReconfig:
		return " data=" + showData(t.Data) + r.stat(&t.Stat)
	case zk.OpGetACL:
		return " acl=" + showACL(sortedIdentities(t.ACL)) + r.stat(&t.Stat)
	case zk.OpGetChildren, zk.OpGetEphemerals:
		return " names=" + showSet(t.Children)
	case zk.OpGetChildren2:
		return " names=" + showSet(t.Children) + r.stat(&t.Stat)
	case zk.OpGetAllChildrenNumber:
		return fmt.Sprintf(" count=%d", t.Count)
	case zk.OpMulti, zk.OpMultiRead:
		return r.multi(t.Sub)
	case zk.OpWhoAmI:
		var who []string
		for _, id := range t.Who {
			who = append(who, id.Scheme+":"+id.ID)
		}
		return " who=" + showSet(who)
	case zk.OpSASL:
		return " token=" + showData(t.Data)
	}
	return ""
}

func (r *run) multi(subs []zk.Result) string {
	var b strings.Builder
	for i := range subs {
		s := &subs[i]
		if s.Op == zk.OpError {
			fmt.Fprintf(&b, " [err=%d]", s.Code)
			continue
		}
		fmt.Fprintf(&b, " [%d%s]", s.Op, r.result(s))
	}
	return b.String()
}

func (r *run) stat(s *zk.Stat) string {
	modified := r.time(s.Mtime)
	if s.Mzxid == s.Czxid {
		// The data was not changed since its creation, so the two times must be equal.
		modified = "same"
		if s.Mtime != s.Ctime {
			modified = "not-ctime"
		}
	}
	return fmt.Sprintf(" {c=%d m=%d p=%d v=%d cv=%d av=%d owner=%s len=%d kids=%d created=%s modified=%s}",
		s.Czxid, s.Mzxid, s.Pzxid, s.Version, s.Cversion, s.Aversion, r.name(zk.SessionID(s.EphemeralOwner)),
		s.DataLength, s.NumChildren, r.time(s.Ctime), modified)
}

// time returns "now" for a time within the run, "0" for none.
func (r *run) time(ms int64) string {
	const slackMs = 2000
	switch {
	case ms == 0:
		return "0"
	case ms >= r.startMs-slackMs && ms <= time.Now().UnixMilli()+slackMs:
		return "now"
	}
	return fmt.Sprint(ms)
}

func showData(b []byte) string {
	switch {
	case b == nil:
		return "null"
	case bytes.Contains(b, []byte("\nversion=")):
		return "the configuration" // the ports differ
	case len(b) > 64:
		return fmt.Sprintf("%d bytes crc %08x", len(b), crc32.ChecksumIEEE(b))
	}
	return fmt.Sprintf("%q", b)
}

func showSet(names []string) string {
	sorted := append([]string{}, names...)
	sort.Strings(sorted)
	return fmt.Sprintf("%q", sorted)
}

func showACL(list []zk.ACL) string {
	var parts []string
	for _, a := range list {
		parts = append(parts, fmt.Sprintf("%d:%s:%s", a.Perms, a.Scheme, a.ID))
	}
	return fmt.Sprintf("%q", parts)
}

// sortedIdentities sorts neighbouring digest entries with equal permissions: "auth" expands
// to the identities of a connection, which are a set.
func sortedIdentities(list []zk.ACL) []zk.ACL {
	out := append([]zk.ACL{}, list...)
	for i := 0; i < len(out); {
		j := i + 1
		for j < len(out) && out[j].Scheme == "digest" && out[i].Scheme == "digest" && out[j].Perms == out[i].Perms {
			j++
		}
		sort.Slice(out[i:j], func(a, b int) bool { return out[i:j][a].ID < out[i:j][b].ID })
		i = j
	}
	return out
}

// event decodes a notification. If it cannot be decoded, the transcript gets a line at
// once.
func (r *run) event(at int, h wire.ReplyHeader, body []byte) zk.Event {
	e, err := wire.DecodeEvent(h, body)
	if err != nil || h.Code != zk.OK {
		r.say(at, "event %x: err=%d %v", body, h.Code, err)
	}
	return e
}

// sayEvents writes events to the transcript in order, except that the events of one closed
// session are sorted. They share a zxid that is not the reply zxid of any write.
func (r *run) sayEvents(at, slot int, events []zk.Event) {
	for i := 0; i < len(events); {
		j := i + 1
		z := events[i].Zxid
		for j < len(events) && events[j].Zxid == z && z > 0 && !r.ordered[z] {
			j++
		}
		var lines []string
		for _, e := range events[i:j] {
			lines = append(lines, fmt.Sprintf("c%d: event %s %q zxid=%d state=%d", slot, e.Type, e.Path, e.Zxid, e.State))
		}
		sort.Strings(lines)
		r.out[at] = append(r.out[at], lines...)
		i = j
	}
}
