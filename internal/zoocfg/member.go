package zoocfg

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// member is one line "server.N=...".
type member struct {
	Entry
	observer   bool
	clientHost string
	clientPort int // 0 is none
}

// memberKey tells whether a key describes an ensemble.
func memberKey(key string) bool {
	for _, prefix := range []string{"server.", "group.", "weight."} {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

// memberLine reads one line of an ensemble:
//
//	server.<id>=<host>:<port>:<port>[:participant|observer][|...][;[[host:]port][;[[host:]port]]]
//	group.<id>=<id>:<id>...     weight.<id>=<n>
func (r *reader) memberLine(e Entry) {
	kind, id, _ := strings.Cut(e.Key, ".")
	if _, err := strconv.ParseInt(id, 10, 64); err != nil {
		r.problem(e, fmt.Sprintf("%q is not the number of a %s", id, kind), "")
		return
	}
	if kind != "server" {
		return
	}
	m := member{Entry: e}
	addresses, client, _ := strings.Cut(e.Value, ";")
	for address := range strings.SplitSeq(addresses, "|") {
		role, err := quorumAddress(address)
		if err != nil {
			r.problem(e, err.Error(), "")
			return
		}
		m.observer = strings.EqualFold(role, "observer")
	}
	client, secure, _ := strings.Cut(client, ";")
	var err error
	if m.clientHost, m.clientPort, err = clientAddress(client); err != nil {
		r.problem(e, err.Error(), "")
		return
	}
	if secure != "" {
		r.problem(e, "a secure client port is refused: "+whyTLS, "")
		return
	}
	r.members = append(r.members, m)
}

// quorumAddress checks host:port:port[:role] and returns the role.
func quorumAddress(address string) (role string, err error) {
	wrong := fmt.Errorf("%q: want host:quorumPort:electionPort[:participant|observer]", address)
	rest := address
	if strings.HasPrefix(rest, "[") {
		end := strings.Index(rest, "]:")
		if end < 0 {
			return "", wrong
		}
		rest = "host" + rest[end+1:]
	}
	parts := strings.Split(rest, ":")
	if len(parts) < 3 || len(parts) > 4 || parts[0] == "" {
		return "", wrong
	}
	for _, number := range parts[1:3] {
		if n, err := strconv.ParseUint(strings.TrimSpace(number), 10, 16); err != nil || n == 0 {
			return "", fmt.Errorf("%w: %q is not a port", wrong, number)
		}
	}
	if len(parts) == 4 {
		role = strings.TrimSpace(parts[3])
		if !strings.EqualFold(role, "participant") && !strings.EqualFold(role, "observer") {
			return "", fmt.Errorf("%w: %q is not a role", wrong, role)
		}
	}
	return role, nil
}

// clientAddress reads [host:]port, or nothing.
func clientAddress(address string) (host string, number int, err error) {
	if address = strings.TrimSpace(address); address == "" {
		return "", 0, nil
	}
	digits := address
	if strings.Contains(address, ":") {
		if host, digits, err = net.SplitHostPort(address); err != nil {
			return "", 0, fmt.Errorf("client address %q: want [host:]port", address)
		}
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || n == 0 {
		return "", 0, fmt.Errorf("client address %q: want [host:]port", address)
	}
	return host, int(n), nil
}

// dynamicFile reads the file that holds the server lines.
func (r *reader) dynamicFile(name string) error {
	text, err := r.readFile(name)
	if err != nil {
		return err
	}
	entries, err := Parse(name, text)
	if err != nil {
		return err
	}
	r.dynamic = entries
	return nil
}

// checkMembers refuses an ensemble: this version serves stand-alone. A single
// server line is ignored as Apache ignores it, but for its client port.
func (r *reader) checkMembers() {
	for _, e := range r.dynamic {
		if !memberKey(e.Key) {
			r.problem(e, "only server., group. and weight. lines may stand in a dynamic configuration file", "")
			continue
		}
		if given, both := r.seen["dynamicConfigFile"]; both && len(r.members) > 0 && r.members[0].File == given.File {
			r.problem(r.members[0].Entry, "may not stand here when dynamicConfigFile is set", "")
			return
		}
		r.memberLine(e)
	}
	voters := 0
	for _, m := range r.members {
		if !m.observer {
			voters++
		}
	}
	switch {
	case len(r.members) > 1:
		r.problem(r.members[1].Entry, fmt.Sprintf("the file configures an ensemble of %d servers; "+
			"this version serves stand-alone only: remove the server lines, or run Apache ZooKeeper", len(r.members)), "")
	case !r.standalone:
		r.missing("standaloneEnabled", "false asks for an ensemble; this version serves stand-alone only")
	case len(r.members) == 1 && voters == 0:
		r.problem(r.members[0].Entry, "an observer alone serves nobody", "")
	case len(r.members) == 1:
		r.oneMember(&r.members[0])
	}
}

// oneMember takes the client port of the only server line.
func (r *reader) oneMember(m *member) {
	if m.clientPort == 0 {
		r.remark(&m.Entry, "one server is no ensemble, the line is ignored")
		return
	}
	if r.clientPort != 0 && r.clientPort != m.clientPort {
		r.problem(m.Entry, fmt.Sprintf("client port %d is not clientPort %d", m.clientPort, r.clientPort), "")
		return
	}
	r.clientPort = m.clientPort
	if m.clientHost != "" {
		r.clientHost = m.clientHost
	}
}
