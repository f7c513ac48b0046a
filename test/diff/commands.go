//go:build linux

package main

import (
	"regexp"
	"sort"
	"strings"
	"time"
	"unicode"

	"github.com/conclave-project/conclave/test/servers"
	"github.com/conclave-project/conclave/zk"
)

// A command is a four-letter word and how its answer is made comparable.
type command struct {
	name      string
	normalise func(r *run, answer string) []string
}

// commands in the order in which they are sent. The last ones reset counters.
var commands = []command{
	{"ruok", exact}, {"isro", exact}, {"srvr", serverLines}, {"conf", confLines}, {"cons", connectionLines},
	{"stat", statLines}, {"dump", dumpLines}, {"wchs", watchSummary}, {"wchc", watchLines}, {"wchp", watchLines},
	{"mntr", monitorLines}, {"dirs", keysOnly(":")}, {"envi", environmentLines},
	{"gtmk", exact}, {"xxxx", exact}, {"crst", exact}, {"cons", connectionLines}, {"srst", exact}, {"cons", connectionLines},
}

// askAll sends them all, once the server has noticed every closed connection.
func (r *run) askAll(at int) {
	r.awaitConnections(len(r.conns))
	for _, c := range commands {
		answer, err := servers.FourLetterWord(r.addr, c.name)
		if err != nil {
			// A reset and an end are the same refusal.
			r.say(at, "%s: closed", c.name)
			continue
		}
		for _, line := range c.normalise(r, answer) {
			r.say(at, "%s: %s", c.name, line)
		}
	}
}

// awaitConnections waits until "cons" shows n connections with a session.
// Servers notice a closed socket when they get to it.
func (r *run) awaitConnections(n int) {
	deadline := time.Now().Add(closeWithin)
	for time.Now().Before(deadline) {
		answer, err := servers.FourLetterWord(r.addr, "cons")
		if err == nil && strings.Count(answer, ",sid=") == n {
			return
		}
		time.Sleep(20 * time.Millisecond) // the clock that runs is the server's
	}
}

func exact(_ *run, answer string) []string {
	return []string{strings.ReplaceAll(answer, "\n", "\\n")}
}

func lines(answer string) []string { return strings.Split(strings.TrimRight(answer, "\n"), "\n") }

var number = regexp.MustCompile(`\d+(\.\d+)?`)

// serverLines keeps zxid, mode and the count of znodes; latencies and packets
// depend on the machine, the version on who it is, and the connections include
// those of earlier four-letter words that are not gone yet.
func serverLines(_ *run, answer string) []string {
	var out []string
	for _, l := range lines(answer) {
		key, _, _ := strings.Cut(l, ":")
		switch key {
		case "Zookeeper version":
			l = key
		case "Latency min/avg/max", "Received", "Sent", "Connections":
			l = number.ReplaceAllString(l, "N")
		}
		out = append(out, l)
	}
	return out
}

// statLines is srvr with the clients in between, one line each, in any order.
func statLines(r *run, answer string) []string {
	var clients, rest []string
	for _, l := range lines(answer) {
		if strings.HasPrefix(l, " /") {
			if strings.Contains(l, "[0]") || strings.Contains(l, ",sent=0)") { // the latter with Netty
				continue // a four-letter word
			}
			clients = append(clients, brief(l))
		} else {
			rest = append(rest, l)
		}
	}
	sort.Strings(clients)
	return append(serverLines(r, strings.Join(rest, "\n")), clients...)
}

var (
	address  = regexp.MustCompile(`/\d+\.\d+\.\d+\.\d+:\d+`)
	measured = regexp.MustCompile(`\b(est|lresp|llat|minlat|avglat|maxlat|recved|sent)=\d+`)
	sid      = regexp.MustCompile(`(sid=)?0x([0-9a-f]{10,16}|0)\b`)
)

func brief(line string) string {
	return measured.ReplaceAllString(address.ReplaceAllString(line, "/ADDRESS"), "$1=N")
}

// connectionLines gives each connection's line with the session's name. The
// counters of packets stay out: they hold what the runner asked while waiting.
func connectionLines(r *run, answer string) []string {
	var out []string
	for _, l := range lines(answer) {
		if strings.Contains(l, ",sid=") { // the others are four-letter words
			out = append(out, r.named(brief(l)))
		}
	}
	sort.Strings(out)
	return out
}

// watchSummary leaves out how many connections watch: Apache counts those too
// that have no watch left.
func watchSummary(_ *run, answer string) []string {
	return []string{strings.ReplaceAll(leadingNumber.ReplaceAllString(answer, "N"), "\n", "\\n")}
}

var leadingNumber = regexp.MustCompile(`^\d+`)

// named puts the script's names in place of session ids.
func (r *run) named(line string) string {
	return sid.ReplaceAllStringFunc(line, func(hex string) string {
		prefix, digits, ok := strings.Cut(hex, "0x")
		if !ok {
			return hex
		}
		return prefix + r.nameOfHex(digits)
	})
}

func (r *run) nameOfHex(digits string) string {
	for id := range r.names {
		if id.String() == "0x"+digits {
			return r.names[id]
		}
	}
	return r.name(zk.SessionID(-1))
}

// confLines compares the values, but for ports, folders and sizes.
func confLines(_ *run, answer string) []string {
	var out []string
	for _, l := range lines(answer) {
		key, _, _ := strings.Cut(l, "=")
		switch key {
		case "clientPort", "dataDir", "dataDirSize", "dataLogDir", "dataLogSize":
			l = key
		}
		out = append(out, l)
	}
	return out
}

// dumpLines keeps the headings, the sessions, and the ephemerals as pairs with
// their session: Apache goes on to list a session that has none left. When
// sessions expire, and in how many steps, depends on the clock; connections
// that are closed stay in Apache's list until their time is over.
func dumpLines(r *run, answer string) []string {
	var out, section []string
	session := ""
	flush := func() {
		sort.Strings(section)
		out, section = append(out, section...), nil
	}
	for _, l := range lines(answer) {
		switch indented := strings.HasPrefix(l, "\t"); {
		case strings.Contains(l, " expire at "), strings.HasPrefix(l, "\tip: "):
		case r.script.shows != nil && strings.HasPrefix(l, "Connections Sets ("): // Netty's tells of none
		case strings.HasSuffix(l, "dump:"), strings.Contains(l, "Sets ("), strings.Contains(l, "with Ephemerals ("):
			flush()
			out = append(out, number.ReplaceAllString(l, "N"))
			session = ""
		case indented:
			section = append(section, session+r.named(l))
		default:
			session = r.named(l)
		}
	}
	flush()
	return out
}

// watchLines pairs every indented line with the heading it stands under, and
// sorts the pairs: both come out of sets. Of paths that no znode can have, for which
// a client may wait, Conclave replaces what would end their line.
func watchLines(r *run, answer string) []string {
	var out []string
	heading := ""
	for _, l := range lines(answer) {
		text, indented := strings.CutPrefix(r.named(l), "\t")
		text = strings.Map(func(c rune) rune {
			if unicode.IsControl(c) {
				return unicode.ReplacementChar
			}
			return c
		}, text)
		if indented {
			out = append(out, heading+" "+text)
		} else {
			heading = text
		}
	}
	sort.Strings(out)
	return out
}

// monitorExact are the keys of mntr whose values depend on the script alone.
var monitorExact = map[string]bool{
	"zk_server_state": true, "zk_znode_count": true, "zk_watch_count": true, "zk_ephemerals_count": true,
	"zk_global_sessions": true,
	"zk_local_sessions":  true, "zk_outstanding_requests": true,
}

func monitorLines(_ *run, answer string) []string {
	var out []string
	for _, l := range lines(answer) {
		if key, _, _ := strings.Cut(l, "\t"); monitorExact[key] {
			out = append(out, l)
		}
	}
	sort.Strings(out)
	return out
}

// keysOnly keeps what stands before the separator.
func keysOnly(separator string) func(*run, string) []string {
	return func(_ *run, answer string) []string {
		var out []string
		for _, l := range lines(answer) {
			key, _, _ := strings.Cut(l, separator)
			out = append(out, key)
		}
		return out
	}
}

// environmentLines compares the heading and that a version is given: the rest
// speaks of a Java process.
func environmentLines(_ *run, answer string) []string {
	var out []string
	for i, l := range lines(answer) {
		key, _, _ := strings.Cut(l, "=")
		if i == 0 || key == "zookeeper.version" || key == "host.name" {
			out = append(out, key)
		}
	}
	return out
}
