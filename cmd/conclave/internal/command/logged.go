package command

import (
	"fmt"
	"strings"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/zk"
)

// logged is one transaction as JSON.
type logged struct {
	Zxid    string `json:"zxid"`
	Time    string `json:"time"`
	Session string `json:"session"`
	Cxid    int32  `json:"cxid"`
	change
	Digest string `json:"digest,omitempty"`
}

// change is what a transaction, or a part of a multi, does.
type change struct {
	Op        string   `json:"op"`
	Path      string   `json:"path,omitempty"`
	Bytes     *int     `json:"bytes,omitempty"` // of the data
	Version   *int32   `json:"version,omitempty"`
	Ephemeral bool     `json:"ephemeral,omitempty"`
	TTL       int64    `json:"ttlMs,omitempty"`
	TimeoutMs int32    `json:"timeoutMs,omitempty"`
	Error     string   `json:"error,omitempty"`
	Paths     []string `json:"paths,omitempty"` // closeSession: ephemerals deleted with it
	Parts     []change `json:"parts,omitempty"` // multi
	*cli.Data
}

func newLogged(h *zk.TxnHeader, t *zk.Txn, data bool) logged {
	return logged{Zxid: h.Zxid.String(), Time: cli.Time(h.Time), Session: h.Session.String(), Cxid: h.Cxid,
		change: newChange(t, data)}
}

func newChange(t *zk.Txn, data bool) change {
	c := change{Op: t.Op.String(), Path: t.Path, Ephemeral: t.Ephemeral, TTL: t.TTL, TimeoutMs: t.TimeoutMs, Paths: t.Paths}
	if t.Op.IsCreate() || t.Op == zk.OpSetData {
		n := len(t.Data)
		c.Bytes = &n
		if data {
			d := cli.NewData(t.Data)
			c.Data = &d
		}
	}
	switch t.Op {
	case zk.OpSetData, zk.OpSetACL, zk.OpCheck:
		version := t.Version
		c.Version = &version
	case zk.OpError:
		c.Error = t.Code.Error()
	}
	for i := range t.Sub {
		c.Parts = append(c.Parts, newChange(&t.Sub[i], data))
	}
	return c
}

// text is the line for people.
func (l *logged) text() string {
	return fmt.Sprintf("%s %s session %s cxid %d %s", l.Zxid, l.Time, l.Session, l.Cxid, l.change.text())
}

func (c *change) text() string {
	fields := []string{c.Op}
	add := func(when bool, format string, args ...any) {
		if when {
			fields = append(fields, fmt.Sprintf(format, args...))
		}
	}
	add(c.Path != "", "%s", cli.Visible(c.Path))
	add(c.Ephemeral, "ephemeral")
	add(c.TTL > 0, "ttl %d ms", c.TTL)
	if c.Bytes != nil {
		add(true, "%d bytes", *c.Bytes)
	}
	if c.Version != nil {
		add(true, "version %d", *c.Version)
	}
	add(c.TimeoutMs != 0, "timeout %d ms", c.TimeoutMs)
	add(c.Error != "", "(%s)", c.Error)
	for _, path := range c.Paths {
		add(true, "%s", cli.Visible(path))
	}
	for i := range c.Parts {
		add(true, "[%s]", c.Parts[i].text())
	}
	if c.Data != nil && c.Data.Text != nil {
		add(true, "%q", *c.Data.Text)
	} else if c.Data != nil {
		add(c.Data.Base64 != "", "base64 %s", c.Data.Base64)
	}
	return strings.Join(fields, " ")
}
