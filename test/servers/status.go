//go:build linux

package servers

import (
	"fmt"
	"strconv"
	"strings"
)

// A Status is a server's answer to "srvr".
type Status struct {
	Mode string // leader, follower, observer, standalone, read-only
	Zxid int64  // of the last applied transaction
}

// Leads reports whether the server is a leader.
func (s Status) Leads() bool { return s.Mode == "leader" }

// ask reads a server's status. If the server does not serve, it returns an error.
func ask(addr string) (Status, error) {
	answer, err := fourLetterWord(addr, "srvr", pollWithin)
	if err != nil {
		return Status{}, err
	}
	var s Status
	for line := range strings.Lines(answer) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "Mode":
			s.Mode = value
		case "Zxid":
			if s.Zxid, err = strconv.ParseInt(strings.TrimPrefix(value, "0x"), 16, 64); err != nil {
				return Status{}, fmt.Errorf("servers: srvr of %s: %w", addr, err)
			}
		}
	}
	if s.Mode == "" {
		return Status{}, fmt.Errorf("servers: %s does not serve: %q", addr, strings.TrimSpace(answer))
	}
	return s, nil
}

// Metrics returns the numbers in the answer to "mntr"; other values are left out.
func Metrics(addr string) (map[string]float64, error) {
	answer, err := FourLetterWord(addr, "mntr")
	if err != nil {
		return nil, fmt.Errorf("servers: mntr of %s: %w", addr, err)
	}
	m := map[string]float64{}
	for line := range strings.Lines(answer) {
		fields := strings.Fields(line)
		if len(fields) != 2 {
			continue
		}
		if value, err := strconv.ParseFloat(fields[1], 64); err == nil {
			m[fields[0]] = value
		}
	}
	if len(m) == 0 {
		return nil, fmt.Errorf("servers: mntr of %s answered %q", addr, strings.TrimSpace(answer))
	}
	return m, nil
}

// Digests returns the digests of the tree, by zxid, that a server remembers, from the
// answer to "hash": one of every 128 transactions, and with Conclave the last.
func Digests(addr string) (map[int64]uint64, error) {
	answer, err := FourLetterWord(addr, "hash")
	if err != nil {
		return nil, fmt.Errorf("servers: hash of %s: %w", addr, err)
	}
	m := map[int64]uint64{}
	for line := range strings.Lines(answer) {
		zxid, digest, ok := strings.Cut(strings.TrimSpace(line), ": ")
		z, err1 := strconv.ParseUint(zxid, 16, 64)
		d, err2 := strconv.ParseInt(digest, 10, 64)
		if err2 != nil {
			var u uint64
			u, err2 = strconv.ParseUint(digest, 10, 64)
			d = int64(u)
		}
		if ok && err1 == nil && err2 == nil {
			m[int64(z)] = uint64(d)
		}
	}
	return m, nil
}
