package command

import (
	"strconv"
	"strings"
)

// answer is a standing as JSON. What the server does not report is left out.
type answer struct {
	Server      string         `json:"server"`
	ID          *int64         `json:"id,omitempty"`
	Error       string         `json:"error,omitempty"`
	Version     string         `json:"version,omitempty"`
	Mode        string         `json:"mode,omitempty"`
	Epoch       *int64         `json:"epoch,omitempty"`
	Zxid        string         `json:"zxid,omitempty"`
	Lag         *int64         `json:"lag,omitempty"`
	LagAtLeast  bool           `json:"lagAtLeast,omitempty"` // lag is a lower bound
	InSync      *int64         `json:"inSync,omitempty"`
	Followers   *int64         `json:"followers,omitempty"`
	DiskFull    bool           `json:"diskFull,omitempty"`
	Znodes      *int64         `json:"znodes,omitempty"`
	Connections *int64         `json:"connections,omitempty"`
	Sessions    *int64         `json:"sessions,omitempty"`
	Outstanding *int64         `json:"outstanding,omitempty"`
	Received    *int64         `json:"received,omitempty"`
	Latency     *latency       `json:"latencyMs,omitempty"`
	Mntr        map[string]any `json:"mntr,omitempty"` // with numbers for numeric values
}

type latency struct {
	Min float64 `json:"min"`
	Avg float64 `json:"avg"`
	Max float64 `json:"max"`
}

func answers(all []standing) []answer {
	typed := make([]answer, len(all))
	for i, s := range all {
		lag, atLeast := strings.CutSuffix(s.Lag, "+")
		inSync, followers, _ := strings.Cut(s.InSync, "/")
		typed[i] = answer{
			Server: s.Server, ID: integer(s.ID), Error: s.Error, Version: s.Version, Mode: s.Mode,
			Epoch: integer(s.Epoch), Zxid: s.Zxid, Lag: integer(lag), LagAtLeast: atLeast,
			InSync: integer(inSync), Followers: integer(followers), DiskFull: s.diskFull(),
			Znodes: integer(s.Znodes), Connections: integer(s.Connections), Sessions: integer(s.Sessions),
			Outstanding: integer(s.Outstanding), Received: integer(s.Received), Latency: latencies(s.Latency), Mntr: values(s.Mntr),
		}
	}
	return typed
}

// integer returns nil for a text that is not an integer.
func integer(text string) *int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

func latencies(text string) *latency {
	parts := strings.Split(text, "/")
	if len(parts) != 3 {
		return nil
	}
	var found [3]float64
	for i, part := range parts {
		var err error
		if found[i], err = strconv.ParseFloat(part, 64); err != nil {
			return nil
		}
	}
	return &latency{found[0], found[1], found[2]}
}

func values(mntr map[string]string) map[string]any {
	if mntr == nil {
		return nil
	}
	typed := make(map[string]any, len(mntr))
	for key, text := range mntr {
		typed[key] = text
		if n := integer(text); n != nil {
			typed[key] = *n
		} else if f, err := strconv.ParseFloat(text, 64); err == nil && f-f == 0 {
			typed[key] = f
		}
	}
	return typed
}
