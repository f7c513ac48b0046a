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

// Rules are the settings of a leader that decide which changes it takes.
type Rules struct {
	// ParticipantsMin is 2 unless standaloneEnabled is false: an ensemble must not
	// shrink to a server that would start on its own.
	ParticipantsMin int
	// MultiAddress is multiAddress.enabled: servers may have several addresses.
	MultiAddress bool
	// SecurePorts is conclave.reconfigSecurePorts: a line may name a port for clients that
	// speak TLS. Servers of ZooKeeper 3.9 cannot read one that does.
	SecurePorts bool
	// IDMax is the greatest number of a server that comes in; 0 is no limit.
	IDMax quorum.ID
}

// Change returns what a reconfig asks for, still without a version: the given
// servers taken out and others put in or exchanged, or a whole new list. A code
// other than OK says why it cannot be done, the same that Apache ZooKeeper 3.9
// answers:
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
// The error is the reason for people, nil with OK. Whether a change is under way, and whether a quorum of the new configuration
// follows, is for the caller to know.
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

// allowed returns why a leader with these rules does not make c of before.
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
// it beside the one that it follows, and must fit in a frame of 512 KiB.
const changeBytesMax = 200 << 10

// canBeRead reports whether every server reads the text of a configuration as it is here.
// One that is in the log, and that they cannot read, would count on its leader alone.
func (c *Config) canBeRead() bool {
	text := c.WithVersion(math.MaxInt64).Text()
	if len(text) > changeBytesMax {
		return false
	}
	again, err := Parse(text)
	return err == nil && again.Text() == text
}

// Next is the configuration that a request asks for, with the version of its text or none,
// or why there is none such: what Change decides by, without the rules of a server, for
// those who propose it.
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
	for _, digits := range list(request.Leaving) {
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
	for _, line := range list(request.Joining) {
		if err := b.join(line, taken); err != nil {
			return nil, err
		}
	}
	return b.Config()
}

// list cuts a list at its commas.
func list(text *string) []string {
	if text == nil {
		return nil
	}
	var items []string
	for item := range strings.SplitSeq(*text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// join takes a server in, in place of one of the same number. Of its key only
// the number after the last dot matters. Taken are the addresses of all servers.
func (b *Builder) join(line string, taken addresses) error {
	key, value, ok := strings.Cut(line, "=")
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	if !ok || key == "" || value == "" {
		return errors.New("want server.N=host:port:port;clientPort")
	}
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

// addresses counts how often each place is that of a server. Names that lead to one place are not
// seen to be the same: they are not resolved.
type addresses map[Address]int

func (a addresses) add(m *Member, servers int) {
	for _, address := range m.distinct() {
		a[address.place()] += servers
	}
}

// meet returns the first address of a server that is taken.
func (a addresses) meet(m *Member) (taken Address, met bool) {
	for _, address := range m.distinct() {
		if a[address.place()] > 0 {
			return address, true
		}
	}
	return Address{}, false
}

// distinct returns the addresses of a server that no other may have: those that mean another
// place on each machine are left out.
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
