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

// A command is a four-letter word, with a function that makes its answer comparable.
type command struct {
	name      string
	normalise func(r *run, answer string) []string
}

// commands are sent in this order. The last ones reset counters.
var commands = []command{
	{"ruok", exact}, {"isro", exact}, {"srvr", serverLines}, {"conf", confLines}, {"cons", connectionLines},
	{"stat", statLines}, {"dump", dumpLines}, {"wchs", watchSummary}, {"wchc", watchLines}, {"wchp", watchLines},
	{"mntr", monitorLines}, {"dirs", keysOnly(":")}, {"envi", environmentLines},
	{"gtmk", exact}, {"xxxx", exact}, {"crst", exact}, {"cons", connectionLines}, {"srst", exact}, {"cons", connectionLines},
}

// askAll sends all commands, once the server has noticed every closed connection.
func (r *run) askAll(at int) {
	r.awaitConnections(0)
	for _, c := range commands {
		answer, err := servers.FourLetterWord(r.addrs[0], c.name)
		if err != nil {
			// A reset and an end both count as a refusal.
			r.say(at, "%s: closed", c.name)
			continue
		}
		for _, line := range c.normalise(r, answer) {
			r.say(at, "%s: %s", c.name, line)
		}
	}
}

// awaitConnections waits until "cons" shows as many connections with a session as there
// are to a server. Servers may notice a closed socket late.
func (r *run) awaitConnections(server int) {
	n := 0
	for _, c := range r.conns {
		if c.server == server {
			n++
		}
	}
	deadline := time.Now().Add(closeWithin)
	for time.Now().Before(deadline) {
		answer, err := servers.FourLetterWord(r.addrs[server], "cons")
		if err == nil && strings.Count(answer, ",sid=") == n {
			return
		}
		time.Sleep(20 * time.Millisecond) // the server's clock is what matters here
	}
}

func exact(_ *run, answer string) []string {
	return []string{strings.ReplaceAll(answer, "\n", "\\n")}
}

func lines(answer string) []string { return strings.Split(strings.TrimRight(answer, "\n"), "\n") }

var number = regexp.MustCompile(`\d+(\.\d+)?`)

// serverLines keeps zxid, mode and the number of znodes. Latencies and packets depend on
// the machine, the version on the server, and the connections include earlier four-letter
// words that are not closed yet.
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

// statLines handles srvr with the clients in between, one line each, in any order.
func statLines(r *run, answer string) []string {
	var clients, rest []string
	for _, l := range lines(answer) {
		if strings.HasPrefix(l, " /") {
			if strings.Contains(l, "[0]") || strings.Contains(l, ",sent=0)") { // the second form is Netty's
				continue // this is the connection of a four-letter word
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

// connectionLines keeps each connection's line with the script's name of the session. It
// leaves out packet counters, which include what the runner asked while waiting.
func connectionLines(r *run, answer string) []string {
	var out []string
	for _, l := range lines(answer) {
		if strings.Contains(l, ",sid=") { // the others are connections of four-letter words
			out = append(out, r.named(brief(l)))
		}
	}
	sort.Strings(out)
	return out
}

// watchSummary leaves out the number of connections with watches: Apache also counts
// connections that have no watch left.
func watchSummary(_ *run, answer string) []string {
	return []string{strings.ReplaceAll(leadingNumber.ReplaceAllString(answer, "N"), "\n", "\\n")}
}

var leadingNumber = regexp.MustCompile(`^\d+`)

// named replaces session ids by the script's names.
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

// confLines compares the values, except ports, directories and sizes.
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

// dumpLines keeps the headings, the sessions, and pairs of ephemerals with their session:
// Apache still lists a session that has no ephemerals left. When sessions expire, and in
// how many steps, depends on the clock. Closed connections stay in Apache's list until they
// time out.
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
		case r.script.shows != nil && strings.HasPrefix(l, "Connections Sets ("): // Netty's list is empty
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

// watchLines pairs every indented line with its heading, and sorts the pairs: both come
// from sets. A client may wait for a path that no znode can have; in such paths Conclave
// replaces the characters that would end the line.
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

// monitorExact are the keys of mntr whose values depend only on the script.
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

// keysOnly keeps the part of each line before the separator.
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

// environmentLines compares the heading and checks that there is a version: the rest
// describes a Java process.
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
