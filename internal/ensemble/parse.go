package ensemble

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/conclave-project/conclave/internal/quorum"
)

// TextBytesMax is the longest text of a configuration: it is the data of a
// znode, and part of every notification.
const TextBytesMax = 512 << 10

// Parse reads the text of a configuration, as Text writes it, in any order of
// lines. As in Java's properties files, a line may be blank or a comment, a key
// may end in a colon or white space, and the last of several equal keys counts.
// The error names the line.
func Parse(text string) (*Config, error) {
	if len(text) > TextBytesMax {
		return nil, fmt.Errorf("ensemble: a configuration of %d bytes is longer than %d", len(text), TextBytesMax)
	}
	var b Builder
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		key, value := cut(line)
		if err := b.Set(key, value); err != nil {
			return nil, fmt.Errorf("ensemble: line %d: %s: %w", number, key, err)
		}
	}
	c, err := b.Config()
	if err != nil {
		return nil, fmt.Errorf("ensemble: %w", err)
	}
	return c, nil
}

// VersionOf returns the version that a text names, 0 if it names none. It also works for a
// text that Parse refuses, because another server may have written it.
func VersionOf(text []byte) int64 {
	version := int64(0)
	for line := range strings.Lines(string(text[:min(len(text), TextBytesMax)])) {
		if key, value := cut(strings.TrimSpace(line)); key == "version" {
			version, _ = strconv.ParseInt(value, 16, 64)
		}
	}
	return version
}

// cut splits a trimmed line into key and value.
func cut(line string) (key, value string) {
	end := strings.IndexAny(line, "=: \t")
	if end < 0 {
		return line, ""
	}
	key, value = line[:end], strings.TrimSpace(line[end:])
	if value != "" && (value[0] == '=' || value[0] == ':') {
		value = strings.TrimSpace(value[1:])
	}
	return key, value
}

// A Builder collects a configuration key by key, for callers that parse the file
// themselves, for instance to report where each key is. The zero value is empty.
type Builder struct {
	version int64
	members map[quorum.ID]Member
	groups  map[int64][]quorum.ID
	weights map[quorum.ID]int64
}

// Set takes one key: server.N, group.N, weight.N or version. The error does not
// name the key. A key that was set is set again.
func (b *Builder) Set(key, value string) error {
	if key == "version" {
		n, err := strconv.ParseInt(value, 16, 64)
		if err != nil || n < 0 {
			return fmt.Errorf("%q is %w in hexadecimal", value, errNumber)
		}
		b.version = n
		return nil
	}
	kind, digits, dot := strings.Cut(key, ".")
	set := map[string]func(int64, string) error{"server": b.server, "group": b.group, "weight": b.weight}[kind]
	if set == nil || kind == "server" && !dot {
		return fmt.Errorf("is not server.N, group.N, weight.N or version")
	}
	number, err := idOf(digits)
	if err != nil {
		return fmt.Errorf("%q is not the number of a %s: %w", digits, kind, err)
	}
	return set(int64(number), value)
}

// idOf reads the number of a server. The largest number stands for an observer
// without a number.
func idOf(digits string) (quorum.ID, error) {
	number, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || number < 0 || number == math.MaxInt64 {
		return 0, errNumber
	}
	return quorum.ID(number), nil
}

// Empty reports whether no key of an ensemble was set.
func (b *Builder) Empty() bool { return len(b.members)+len(b.groups)+len(b.weights) == 0 }

func (b *Builder) server(id int64, value string) error {
	m, err := ParseMember(quorum.ID(id), value)
	if err != nil {
		return err
	}
	if b.members == nil {
		b.members = make(map[quorum.ID]Member)
	}
	b.members[m.ID] = m
	return nil
}

func (b *Builder) group(number int64, value string) error {
	var ids []quorum.ID
	for digits := range strings.SplitSeq(value, ":") {
		id, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if err != nil {
			return fmt.Errorf("%q is %w: want the numbers of servers with : between", digits, errNumber)
		}
		ids = append(ids, quorum.ID(id))
	}
	if b.groups == nil {
		b.groups = make(map[int64][]quorum.ID)
	}
	b.groups[number] = ids
	return nil
}

func (b *Builder) weight(id int64, value string) error {
	weight, err := strconv.ParseInt(value, 10, 64)
	switch {
	case err != nil:
		return fmt.Errorf("%q is %w", value, errNumber)
	case weight < 0 || weight > quorum.WeightMax:
		return fmt.Errorf("weight %d is not from 0 to %d", weight, int64(quorum.WeightMax))
	}
	if b.weights == nil {
		b.weights = make(map[quorum.ID]int64)
	}
	b.weights[quorum.ID(id)] = weight
	return nil
}

// Config checks the keys together and returns the configuration. The Builder
// may be used after that.
func (b *Builder) Config() (*Config, error) {
	c := &Config{Version: b.version}
	for _, id := range slices.Sorted(maps.Keys(b.members)) {
		c.Members = append(c.Members, b.members[id])
	}
	if len(c.Members) > quorum.ParticipantsMax {
		return nil, fmt.Errorf("%d servers are more than %d", len(c.Members), quorum.ParticipantsMax)
	}
	if len(c.Participants()) == 0 {
		return nil, fmt.Errorf("%d servers and no participant among them: nobody could vote", len(c.Members))
	}
	if b.groups == nil && b.weights == nil {
		return c, nil
	}
	if err := b.divide(c); err != nil {
		return nil, err
	}
	if _, err := c.hierarchy(); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(c.Participants(), func(id quorum.ID) bool { return c.Weights[id] > 0 }) {
		return nil, errors.New("all weights are 0, so no quorum is possible")
	}
	return c, nil
}

// divide puts c's participants into their groups, with their weights (ensemble-E3).
func (b *Builder) divide(c *Config) error {
	c.Groups, c.Weights = make(map[quorum.ID]int64), make(map[quorum.ID]int64)
	maps.Copy(c.Weights, b.weights)
	for _, number := range slices.Sorted(maps.Keys(b.groups)) {
		for _, id := range b.groups[number] {
			m := c.Member(id)
			if other, twice := c.Groups[id]; twice {
				return fmt.Errorf("server %d is in group %d and in group %d", id, other, number)
			}
			if m == nil || m.Observer {
				return fmt.Errorf("group %d names server %d, which is no participant", number, id)
			}
			c.Groups[id] = number
		}
	}
	for _, id := range c.Participants() {
		if _, grouped := c.Groups[id]; !grouped {
			return fmt.Errorf("server %d is in no group: with group or weight lines each participant must be", id)
		}
		if _, weighed := c.Weights[id]; !weighed {
			c.Weights[id] = 1
		}
	}
	return nil
}

// ParseMember parses the text after server.N=
//
//	host:quorumPort:electionPort[:participant|observer][|...][;[[host:]port][;[[host:]port]]]
//
// where more addresses follow after |, then the address for clients, then the
// address for TLS clients.
func ParseMember(id quorum.ID, value string) (Member, error) {
	m := Member{ID: id}
	parts := strings.Split(value, ";")
	if len(parts) > 3 {
		return m, fmt.Errorf("%q: more than two ;", value)
	}
	parts = append(parts, "", "")
	if err := m.addresses(parts[0]); err != nil {
		return m, err
	}
	var err error
	if m.Client, err = clientAddress(parts[1]); err != nil {
		return m, err
	}
	m.Secure, err = clientAddress(parts[2])
	return m, err
}

// pair is one of a server's pairs of addresses for other servers.
type pair struct{ quorum, election Address }

// addresses reads the part before the first semicolon. Several addresses are
// sorted as Apache prints them (ensemble-E2).
func (m *Member) addresses(text string) error {
	var pairs []pair
	role := ""
	for address := range strings.SplitSeq(text, "|") {
		p, its, err := parsePair(address)
		if err != nil {
			return fmt.Errorf("%q: want host:quorumPort:electionPort[:participant|observer]: %w", address, err)
		}
		if role != "" && its != "" && role != its {
			return fmt.Errorf("%q: one server cannot be %s and %s", text, role, its)
		}
		role = cmp.Or(role, its)
		pairs = append(pairs, p)
	}
	slices.SortStableFunc(pairs, func(a, b pair) int {
		return cmp.Or(strings.Compare(a.quorum.Host, b.quorum.Host), cmp.Compare(a.quorum.Port, b.quorum.Port))
	})
	pairs = slices.Compact(pairs)
	quorums, elections := make(map[Address]bool), make(map[Address]bool) // a stranger's text may have any number
	for _, p := range pairs {
		if quorums[p.quorum] || elections[p.election] {
			return fmt.Errorf("%.99q: one address cannot stand for two", text)
		}
		quorums[p.quorum], elections[p.election] = true, true
		m.Quorum, m.Election = append(m.Quorum, p.quorum), append(m.Election, p.election)
	}
	m.Observer = role == "observer"
	return nil
}

// parsePair reads host:port:port[:role].
func parsePair(text string) (p pair, role string, err error) {
	parts, err := fields(strings.TrimSpace(text))
	if err != nil {
		return p, "", err
	}
	if len(parts) < 3 || len(parts) > 4 {
		return p, "", fmt.Errorf("%d parts", len(parts))
	}
	host, err := hostOf(parts[0])
	if err != nil {
		return p, "", err
	}
	p.quorum.Host, p.election.Host = host, host
	if p.quorum.Port, err = portOf(parts[1]); err != nil {
		return p, "", err
	}
	if p.election.Port, err = portOf(parts[2]); err != nil {
		return p, "", err
	}
	if p.quorum.Port == p.election.Port {
		return p, "", fmt.Errorf("the quorum port must not be the election port")
	}
	if len(parts) == 4 {
		role = strings.ToLower(strings.TrimSpace(parts[3]))
		if role != "participant" && role != "observer" {
			return p, "", fmt.Errorf("%q is not a role", parts[3])
		}
	}
	return p, role, nil
}
