package ensemble

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// Rules are the settings of a leader that decide which changes it accepts.
type Rules struct {
	// ParticipantsMin is 2 unless standaloneEnabled is false: an ensemble must not
	// shrink to a server that would start on its own.
	ParticipantsMin int
	// MultiAddress is multiAddress.enabled: servers may have several addresses.
	MultiAddress bool
	// SecurePorts is conclave.reconfigSecurePorts: a line may name a port for TLS clients.
	// Servers of ZooKeeper 3.9 cannot read such a line.
	SecurePorts bool
	// IDMax is the greatest number of a server that joins; 0 is no limit.
	IDMax quorum.ID
}

// Change returns the configuration that a reconfig requests, still without a
// version. A reconfig removes servers and adds or replaces others, or gives a
// whole new list. A code other than OK says why this is impossible; it is the
// code that Apache ZooKeeper 3.9 answers:
//
//	BadVersion    the request is for another version than c's
//	Marshalling   the number of a server, group or version is none
//	BadArguments  all else: the form of a line, an address that two servers
//	              would have, a joining server without a client port, a secure
//	              client port that the rules do not allow, too few
//	              participants, servers put in or out where groups count, a text
//	              of more than 200 KiB, a changed server that could not be started
//	              with its line
//
// The error explains the code to people; it is nil with OK. The caller has to check whether another change is
// under way, and whether a quorum of the new configuration follows.
func (c *Config) Change(request *zk.Reconfig, rules Rules) (*Config, zk.Code, error) {
	if request.ConfigID != -1 && request.ConfigID != c.Version {
		return nil, zk.ErrBadVersion, fmt.Errorf("it is for version %x, and %x is in force", request.ConfigID, c.Version)
	}
	next, err := c.Next(request)
	if errors.Is(err, errNumber) {
		return nil, zk.ErrMarshalling, err
	}
	if err == nil {
		err = next.allowed(c, rules)
	}
	if err != nil {
		return nil, zk.ErrBadArguments, err
	}
	return next.WithVersion(0), zk.OK, nil
}

// allowed returns why a leader with these rules must not change before to c.
func (c *Config) allowed(before *Config, rules Rules) error {
	if n := len(c.Participants()); n < rules.ParticipantsMin {
		return fmt.Errorf("%d participants are fewer than %d: fewer take standaloneEnabled=false", n, rules.ParticipantsMin)
	}
	for i := range c.Members {
		m := &c.Members[i]
		switch {
		case rules.IDMax > 0 && m.ID > rules.IDMax && before.Member(m.ID) == nil:
			return fmt.Errorf("server %d could not be started: with extendedTypesEnabled the greatest number is %d", m.ID, rules.IDMax)
		case len(m.Quorum) > 1 && !rules.MultiAddress:
			return fmt.Errorf("server %d has several addresses: that takes multiAddress.enabled=true", m.ID)
		case m.Secure.Port != 0 && !rules.SecurePorts:
			return fmt.Errorf("server %d has a port for clients that speak TLS: that takes conclave.reconfigSecurePorts=true, and an ensemble without servers of ZooKeeper 3.9, which cannot read it", m.ID)
		}
	}
	if !c.canBeRead() {
		return fmt.Errorf("its text is longer than %d bytes, or is read as something else", changeBytesMax)
	}
	return c.startable(before)
}

// changeBytesMax is the longest text of a configuration that a reconfig makes. Votes carry
// it together with the configuration in force, and must fit in a frame of 512 KiB.
const changeBytesMax = 200 << 10

// canBeRead reports whether every server reads the text of c as the same configuration.
// If the others could not read a configuration in the log, it would be in force only on
// the leader.
func (c *Config) canBeRead() bool {
	text := c.WithVersion(math.MaxInt64).Text()
	if len(text) > changeBytesMax {
		return false
	}
	again, err := Parse(text)
	return err == nil && again.Text() == text
}

// Next returns the configuration that a request asks for, with the version in its text if
// there is one, or an error. It makes the same checks as Change except for a server's
// rules, for use by clients that propose a reconfig.
func (c *Config) Next(request *zk.Reconfig) (*Config, error) {
	if request.NewMembers != nil {
		return Parse(strings.ReplaceAll(*request.NewMembers, ",", "\n"))
	}
	if c.Groups != nil {
		return nil, errors.New("where groups count, only a whole new list says which group a server is in")
	}
	b := Builder{members: make(map[quorum.ID]Member)}
	for _, m := range c.Members {
		b.members[m.ID] = m
	}
	for _, digits := range given(request.Leaving) {
		id, err := strconv.ParseInt(digits, 10, 64)
		if err != nil {
			return nil, errNumber
		}
		delete(b.members, quorum.ID(id))
	}
	taken := make(addresses)
	for _, m := range b.members {
		taken.add(&m, 1)
	}
	for _, line := range given(request.Joining) {
		if err := b.join(line, taken); err != nil {
			return nil, err
		}
	}
	return b.Config()
}

// given splits a list at its commas; nil is empty.
func given(list *string) []string {
	if list == nil {
		return nil
	}
	return split(*list, ",")
}

// split returns what is between separators, without spaces around it. Empty items are left out, as in
// Apache ZooKeeper.
func split(text, separator string) (items []string) {
	for item := range strings.SplitSeq(text, separator) {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// join adds a server and replaces one of the same number. Only the number after
// the last dot of its key matters. taken holds the addresses of all servers.
func (b *Builder) join(line string, taken addresses) error {
	parts := split(line, "=")
	if len(parts) != 2 {
		return errors.New("want server.N=host:port:port;clientPort")
	}
	key, value := parts[0], parts[1]
	id, err := idOf(key[strings.LastIndexByte(key, '.')+1:])
	if err != nil {
		return err
	}
	m, err := ParseMember(id, value)
	if err != nil {
		return err
	}
	if m.Client.Port == 0 && m.Secure.Port == 0 {
		return errors.New("a server that joins needs a client port")
	}
	if before, ok := b.members[id]; ok {
		taken.add(&before, -1)
	}
	if address, met := taken.meet(&m); met {
		return fmt.Errorf("server.%d=%s: %s is an address of another server", id, &m, address)
	}
	taken.add(&m, 1)
	b.members[id] = m
	return nil
}

// addresses counts how many servers use each place. Names are not resolved, so two names of the
// same place count as different.
type addresses map[Address]int

func (a addresses) add(m *Member, servers int) {
	for _, address := range m.distinct() {
		a[address.place()] += servers
	}
}

// meet returns the first address of a server that another server has.
func (a addresses) meet(m *Member) (taken Address, met bool) {
	for _, address := range m.distinct() {
		if a[address.place()] > 0 {
			return address, true
		}
	}
	return Address{}, false
}

// distinct returns the addresses of a server that no other server may have. Addresses that
// mean a different place on each machine are left out.
func (m *Member) distinct() []Address {
	return slices.DeleteFunc(m.all(), Address.Local)
}

// all returns every address of a server.
func (m *Member) all() []Address {
	var all []Address
	all = append(append(all, m.Quorum...), m.Election...)
	for _, address := range []Address{m.Client, m.Secure} {
		if address.Port != 0 {
			all = append(all, address)
		}
	}
	return all
}
