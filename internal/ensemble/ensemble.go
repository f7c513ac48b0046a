package ensemble

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/conclave-project/conclave/internal/invariant"
	"github.com/conclave-project/conclave/internal/quorum"
)

// Member is one server of an ensemble.
type Member struct {
	ID quorum.ID
	// Quorum and Election are the addresses for other servers, in pairs: one of
	// each, or several for a server with several networks. They are in the
	// order of their texts.
	Quorum, Election []Address
	Observer         bool
	// Client and Secure are where clients reach it. Port 0 means that the
	// configuration does not say, for instance because the server takes its
	// client port from its own file.
	Client, Secure Address
}

// Config is the configuration of an ensemble. It is a value: a Config that is
// shared is never changed. See ensemble-E1 to ensemble-E4.
type Config struct {
	// Version is the zxid of the reconfig that made it, or of the first epoch
	// that began with it; 0 before that.
	Version int64
	Members []Member
	// Groups holds the group of each participant. It is nil if a plain majority is a quorum.
	Groups map[quorum.ID]int64
	// Weights holds the weight of each participant's vote. It is nil if Groups is.
	// It may name servers that do not vote; their weight has no effect.
	Weights map[quorum.ID]int64
}

// Member returns the server of a number, or nil. The caller must not change it.
func (c *Config) Member(id quorum.ID) *Member {
	at, found := slices.BinarySearchFunc(c.Members, id, func(m Member, id quorum.ID) int {
		return int(min(1, max(-1, m.ID-id)))
	})
	if !found {
		return nil
	}
	return &c.Members[at]
}

// Meets reports whether the two configurations have a host in common. Two
// ensembles on different machines have none.
func (c *Config) Meets(other *Config) bool {
	hosts := make(map[string]bool)
	for i := range c.Members {
		for _, a := range c.Members[i].Election {
			hosts[a.place().Host] = true
		}
	}
	for i := range other.Members {
		for _, a := range other.Members[i].Election {
			if hosts[a.place().Host] {
				return true
			}
		}
	}
	return false
}

// Participants returns who votes.
func (c *Config) Participants() quorum.IDs {
	var participants quorum.IDs
	for i := range c.Members {
		if !c.Members[i].Observer {
			participants = append(participants, c.Members[i].ID)
		}
	}
	return participants
}

// Quorum returns which sets of participants are a quorum.
func (c *Config) Quorum() quorum.Set {
	if c.Groups == nil {
		return quorum.NewMajority(c.Participants()...)
	}
	set, err := c.hierarchy()
	invariant.Check(err == nil, "ensemble: a configuration that cannot be counted (ensemble-E3)")
	return set
}

// hierarchy returns the quorum of a configuration with groups.
func (c *Config) hierarchy() (quorum.Set, error) {
	var participants []quorum.Participant
	for _, id := range c.Participants() {
		participants = append(participants, quorum.Participant{ID: id, Group: c.Groups[id], Weight: c.Weights[id]})
	}
	return quorum.NewHierarchical(participants...)
}

// WithVersion returns the same configuration with another version.
func (c *Config) WithVersion(version int64) *Config {
	other := *c
	other.Version = version
	return &other
}

// Equal reports whether two configurations differ in nothing but the version.
func (c *Config) Equal(other *Config) bool {
	return slices.EqualFunc(c.Members, other.Members, equalMembers) &&
		maps.Equal(c.Groups, other.Groups) && maps.Equal(c.Weights, other.Weights)
}

func equalMembers(a, b Member) bool {
	return a.Client == b.Client && a.Secure == b.Secure && samePeer(a, b)
}

// SamePeers reports whether two configurations differ in nothing but the version and
// where clients connect: quorums and the addresses between servers are the same.
func (c *Config) SamePeers(other *Config) bool {
	return slices.EqualFunc(c.Members, other.Members, samePeer) &&
		maps.Equal(c.Groups, other.Groups) && maps.Equal(c.Weights, other.Weights)
}

func samePeer(a, b Member) bool {
	return a.ID == b.ID && a.Observer == b.Observer &&
		slices.Equal(a.Quorum, b.Quorum) && slices.Equal(a.Election, b.Election)
}

// Text returns the configuration as Apache ZooKeeper prints it: a line for each
// server, group and weight, then the version in hexadecimal without a line end.
func (c *Config) Text() string {
	var s strings.Builder
	for _, line := range c.Lines() {
		s.WriteString(line)
		s.WriteByte('\n')
	}
	s.WriteString("version=" + strconv.FormatUint(uint64(c.Version), 16))
	return s.String()
}

// Lines returns the lines of Text, except the version, without line ends, in
// ascending order of kind and number.
func (c *Config) Lines() []string {
	var lines []string
	for i := range c.Members {
		lines = append(lines, fmt.Sprintf("server.%d=%s", c.Members[i].ID, c.Members[i].String()))
	}
	groups := make(map[int64][]string)
	for _, id := range slices.Sorted(maps.Keys(c.Groups)) {
		groups[c.Groups[id]] = append(groups[c.Groups[id]], strconv.FormatInt(int64(id), 10))
	}
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		lines = append(lines, fmt.Sprintf("group.%d=%s", group, strings.Join(groups[group], ":")))
	}
	for _, id := range slices.Sorted(maps.Keys(c.Weights)) {
		lines = append(lines, fmt.Sprintf("weight.%d=%d", id, c.Weights[id]))
	}
	return lines
}

// String returns the text after server.N=, always with the role.
func (m *Member) String() string {
	invariant.Check(len(m.Quorum) == len(m.Election), "ensemble: quorum and election addresses are not pairs")
	var s strings.Builder
	for i, address := range m.Quorum {
		if i > 0 {
			s.WriteByte('|')
		}
		s.WriteString(address.String() + ":" + strconv.Itoa(int(m.Election[i].Port)))
	}
	if m.Observer {
		s.WriteString(":observer")
	} else {
		s.WriteString(":participant")
	}
	if m.Client.Port != 0 {
		s.WriteString(";" + withHost(m.Client).String())
	}
	if m.Secure.Port != 0 {
		if m.Client.Port == 0 {
			s.WriteByte(';')
		}
		s.WriteString(";" + withHost(m.Secure).String())
	}
	return s.String()
}

// withHost returns a client address with its host.
func withHost(a Address) Address {
	if a.Host == "" {
		a.Host = anyHost
	}
	return a
}
