package command

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/cmd/conclave/internal/dashboard"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/txn"
	"github.com/conclave-project/conclave/internal/txnlog"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// dashLog returns the server of this process whose log the dashboard reads; nil if none
// runs.
type dashLog func() *server.Server

// tailTime is the time between two looks at the end of the log.
const tailTime = 500 * time.Millisecond

// dashTxns are transactions as JSON.
type dashTxns struct {
	Transactions []logged `json:"transactions"` // oldest first
	From         string   `json:"from,omitempty"`
	Whole        bool     `json:"whole"` // all of the log since From was read
}

// logReadTime bounds one search of the log.
const logReadTime = 10 * time.Second

// readDashLog finds the latest transactions in the log that match a query. It does not show
// data, which is protected by the ACL of its znode.
func readDashLog(ctx context.Context, log dashLog, q dashboard.LogQuery) (any, error) {
	s := log()
	if s == nil {
		return nil, noLog()
	}
	owner, err := wantedSession(q.Session)
	if err != nil {
		return nil, err
	}
	config := s.Config()
	last, _ := s.Digest()
	reader, err := txnlog.NewReader(config.FS, s.LogDir(), -1, txnlog.ReadOptions{AllowGaps: true, PayloadBytesMax: config.ReadBytesMax()})
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	until := time.Now().Add(logReadTime)
	found := dashTxns{Transactions: []logged{}, Whole: true}
	for n := 0; ; n++ {
		if n%1024 == 0 && (ctx.Err() != nil || time.Now().After(until)) {
			found.Whole = false
			break
		}
		record, err := reader.Next()
		if errors.Is(err, io.EOF) || vfs.IsCorruption(err) { // the end of what is written so far
			break
		}
		if err != nil {
			return nil, err
		}
		if record.Zxid > last {
			break
		}
		if found.From == "" {
			found.From = record.Zxid.String()
		}
		h, t, _, err := txn.Decode(record.Payload)
		if err != nil {
			return nil, err
		}
		if owner != 0 && h.Session != owner || q.Path != "" && q.Path != "/" && !touches(&t, strings.TrimSuffix(q.Path, "/")) || q.Op != "" && !does(&t, q.Op) {
			continue
		}
		if h, t, _, err = txn.Decode(bytes.Clone(record.Payload)); err != nil { // clone it, because the buffer belongs to the reader
			return nil, err
		}
		found.Transactions = append(found.Transactions, newLogged(&h, &t, false))
		if len(found.Transactions) >= 2*q.Limit {
			found.Transactions = slices.Clone(found.Transactions[q.Limit:])
		}
	}
	found.Transactions = found.Transactions[max(0, len(found.Transactions)-q.Limit):]
	return found, nil
}

// readLogged decodes a record of the log. The caller must not change the record afterwards.
func readLogged(payload []byte) (logged, error) {
	h, t, digest, err := txn.Decode(payload)
	one := newLogged(&h, &t, false)
	if digest.Version != 0 {
		one.Digest = strconv.FormatUint(digest.Value, 10)
	}
	return one, err
}

// does reports whether a transaction is of that kind, or is a multi that contains one.
func does(t *zk.Txn, op string) bool {
	if t.Op.String() == op {
		return true
	}
	return slices.ContainsFunc(t.Sub, func(sub zk.Txn) bool { return does(&sub, op) })
}

// dashNews has the transactions since the last look at the log, as JSON.
type dashNews struct {
	Transactions []logged `json:"transactions"` // the latest ones, oldest first
	Skipped      int      `json:"skipped,omitempty"`
}

// toldMax is how many transactions are reported from one look: more than anybody reads, and
// few enough not to burden a busy server.
const toldMax = 40

// followDashLog reports the transactions that are committed from now on. If the server is
// killed, the log of another server of this process may be followed instead.
func followDashLog(ctx context.Context, log dashLog, each func(any)) error {
	var of *server.Server
	var tail *txnlog.Tail
	ticker := time.NewTicker(tailTime)
	defer ticker.Stop()
	told := zk.NoZxid
	for {
		if s := log(); s != nil {
			last, _ := s.Digest()
			if s != of {
				if told == zk.NoZxid {
					told = last
				}
				config := s.Config()
				of, tail = s, txnlog.NewTail(config.FS, s.LogDir(), told, config.ReadBytesMax())
			}
			var newest [toldMax][]byte // a ring buffer
			n := 0
			err := tail.Read(last, func(zxid zk.Zxid, payload []byte) error {
				newest[n%toldMax] = append(newest[n%toldMax][:0], payload...)
				told = zxid
				n++
				return ctx.Err()
			})
			news := dashNews{Skipped: max(0, n-toldMax)}
			for i := news.Skipped; i < n && err == nil; i++ {
				var one logged
				one, err = readLogged(newest[i%toldMax])
				news.Transactions = append(news.Transactions, one)
			}
			if n > 0 && err == nil {
				each(news)
			}
			if err != nil && ctx.Err() == nil {
				return cli.Failed(err, "`conclave check` reads the whole directory")
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}
