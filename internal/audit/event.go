package audit

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/conclave-project/conclave/internal/acl"
	"github.com/conclave-project/conclave/zk"
)

// Operation is what an event is about, under the name that Apache uses.
type Operation string

// The operations, as AuditConstants of Apache has them.
const (
	ServerStart       Operation = "serverStart"
	ServerStop        Operation = "serverStop"
	Create            Operation = "create"
	Delete            Operation = "delete"
	SetData           Operation = "setData"
	SetACL            Operation = "setAcl"
	Multi             Operation = "multiOperation"
	Reconfig          Operation = "reconfig"
	EphemeralDeletion Operation = "ephemeralZNodeDeletionOnSessionCloseOrExpire"
)

// Result is how an operation ended.
type Result string

// The results, as AuditEvent.Result of Apache has them.
const (
	Success Result = "success"
	Failure Result = "failure"
	Invoked Result = "invoked"
)

// NoMode is the mode of an event that creates nothing.
const NoMode zk.CreateMode = -1

// Event is the content of one line of the log. Empty values are left out.
type Event struct {
	Session   zk.SessionID
	Client    []zk.Identity // what the client has proved, including its address; nil: the server itself acted
	Operation Operation
	Path      string
	Mode      zk.CreateMode // NoMode for none
	ACL       []zk.ACL
	Result    Result
}

// modes are the names of the modes, in the order of their numbers.
var modes = [...]string{
	"persistent", "ephemeral", "persistent_sequential", "ephemeral_sequential", "container",
	"persistent_with_ttl", "persistent_sequential_with_ttl",
}

// stampLayout is %d{ISO8601} of logback.
const stampLayout = "2006-01-02 15:04:05,000"

// The rest of the prefix, as the pattern "%d{ISO8601} %p %c{2}: %m%n" of Apache's
// logback.xml makes it: failures have the level ERROR.
const (
	prefixDone   = " INFO o.a.z.a.Slf4jAuditLogger: "
	prefixFailed = " ERROR o.a.z.a.Slf4jAuditLogger: "
)

// appendStamp appends the time at the start of a line.
func appendStamp(b []byte, at time.Time) []byte { return at.AppendFormat(b, stampLayout) }

// appendHead appends the text after the time, up to the operation, for an event that has not
// failed. user is the name of the server itself.
func appendHead(b []byte, e *Event, user string) []byte {
	b = appendWho(appendSession(append(b, prefixDone...), e.Session), e.Client, user)
	return append(b, "operation="...)
}

// appendLine appends the text after the time. head is the result of appendHead for the event.
func appendLine(b []byte, e *Event, head []byte) []byte {
	if e.Result == Failure {
		b = append(b, prefixFailed...)
		head = head[len(prefixDone):]
	}
	b = append(append(b, head...), e.Operation...)
	if e.Path != "" {
		b = bounded(append(b, "\tznode="...), e.Path, 0)
	}
	if e.Mode.Valid() {
		b = append(b, "\tznode_type="...)
		b = append(b, modes[e.Mode]...)
	}
	if len(e.ACL) > 0 {
		b = appendACL(append(b, "\tacl="...), e.ACL)
	}
	b = append(b, "\tresult="...)
	b = append(b, e.Result...)
	return append(b, '\n')
}

// appendSession appends the field of a session; session 0 has none.
func appendSession(b []byte, id zk.SessionID) []byte {
	if id == 0 {
		return b
	}
	return append(strconv.AppendUint(append(b, "session=0x"...), uint64(id), 16), '\t')
}

// appendWho appends the fields of the client that acted. user is the name of the server itself.
func appendWho(b []byte, client []zk.Identity, user string) []byte {
	if client == nil {
		return append(escape(append(b, "user="...), user, 0), '\t')
	}
	return appendAddress(appendUsers(b, client), client)
}

// usersMax is the total length of a client's names above which names that it gave itself are
// left out. Otherwise a client could fill the log with names and push out older lines.
const usersMax = 384

// appendUsers appends the names of a client, separated by commas. There may be none.
func appendUsers(b []byte, client []zk.Identity) []byte {
	begin, left := len(b), 0
	for i := range client {
		b = appendUser(b, begin, &client[i])
	}
	if len(b) > begin+usersMax {
		b = b[:begin]
		for i := range client {
			if client[i].Scheme != "digest" {
				b = appendUser(b, begin, &client[i])
			}
		}
		for i := range client {
			before := len(b)
			if client[i].Scheme != "digest" {
				continue
			}
			if b = appendUser(b, begin, &client[i]); len(b) > begin+usersMax {
				b = b[:before]
				left++
			}
		}
	}
	switch {
	case left > 0 && len(b) == begin:
		b = fmt.Appendf(b, "user=(%d names)", left)
	case left > 0:
		b = fmt.Appendf(b, ",(%d more)", left)
	}
	if len(b) > begin {
		b = append(b, '\t')
	}
	return b
}

// appendUser appends one name to the list of names that starts at b[begin].
func appendUser(b []byte, begin int, id *zk.Identity) []byte {
	name := userOf(id)
	if blank(name) {
		return b
	}
	if len(b) == begin {
		b = append(b, "user="...)
	} else {
		b = append(b, ',')
	}
	if id.Scheme == "ip" {
		return appendIP(b, name)
	}
	return escape(b, name, separator(id.Scheme))
}

// userOf returns the name of an identity, as its provider in Apache does. The rights of
// the super user have no name.
func userOf(id *zk.Identity) string {
	switch id.Scheme {
	case "super":
		return ""
	case "digest":
		name, _, _ := strings.Cut(id.ID, ":")
		return name
	}
	return id.ID
}

// blank reports whether Java's trim makes a name empty.
func blank(name string) bool {
	for i := range len(name) {
		if name[i] > ' ' {
			return false
		}
	}
	return true
}

// separator returns the character to escape in the names of a scheme, because it
// ends a name in the list. It returns 0 for x509: names of certificates contain
// commas themselves, which are not escaped.
func separator(scheme string) byte {
	if scheme == "x509" {
		return 0
	}
	return ','
}

func appendAddress(b []byte, client []zk.Identity) []byte {
	for i := range client {
		if client[i].Scheme == "ip" {
			return append(appendIP(append(b, "ip="...), client[i].ID), '\t')
		}
	}
	return b
}

// appendIP appends an address as Java's getHostAddress writes it.
func appendIP(b []byte, text string) []byte {
	address, err := netip.ParseAddr(text)
	if err != nil {
		return escape(b, text, ',')
	}
	b = acl.AppendAddress(b, address)
	if zone := address.Unmap().Zone(); zone != "" {
		b = escape(append(b, '%'), zone, ',')
	}
	return b
}

// permissions are the letters of a list, in the order in which Apache writes them.
var permissions = []struct {
	perm   zk.Perms
	letter byte
}{{zk.PermCreate, 'c'}, {zk.PermDelete, 'd'}, {zk.PermRead, 'r'}, {zk.PermWrite, 'w'}, {zk.PermAdmin, 'a'}}

// appendACL appends an access control list, with commas between its entries.
func appendACL(b []byte, list []zk.ACL) []byte {
	begin := len(b)
	for i := range list {
		if i > 0 {
			b = append(b, ',')
		}
		if len(b) > begin+aclMax {
			return appendRest(b, list)
		}
		b = append(bounded(b, list[i].Scheme, ','), ':')
		b = append(bounded(b, list[i].ID, separator(list[i].Scheme)), ':')
		for _, p := range permissions {
			if list[i].Perms&p.perm != 0 {
				b = append(b, p.letter)
			}
		}
	}
	return b
}
