package login

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/conclave-project/conclave/internal/sasl"
	"github.com/jcmturner/gofork/encoding/asn1"
	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/service"
	"github.com/jcmturner/gokrb5/v8/types"
)

// acceptor returns a function that begins exchanges with clients that have a
// ticket for the principal of a section.
func (f *File) acceptor(section string, m *module) (func() sasl.Server, error) {
	keys, err := f.openKeys(section, m)
	if err != nil {
		return nil, err
	}
	var as *types.PrincipalName // nil: any principal in the key table
	var realm string
	if m.options["principal"] != "*" {
		name, of, err := f.principal(section, m)
		if err != nil {
			return nil, err
		}
		as, realm = &name, of
	}
	return func() sasl.Server { return &accepting{keys: keys, as: as, realm: realm} }, nil
}

// accepting is the side that learns the identity of the other: it receives a ticket,
// perhaps answers it, and then both agree that no further messages are protected.
type accepting struct {
	keys  *keyTable
	as    *types.PrincipalName // nil: any principal in the key table
	realm string               // of as

	next         func(token []byte) ([]byte, bool, error) // nil at the beginning
	key          types.EncryptionKey
	number       uint64 // of the next message from here
	ticketOf     string
	proved, acts string
}

func (a *accepting) Names() (proved, acts string) { return a.proved, a.acts }

func (a *accepting) Next(token []byte) ([]byte, bool, error) {
	return guarded(func() ([]byte, bool, error) {
		step := a.next
		if step == nil {
			step = a.ticket
		}
		a.next = over
		answer, done, err := step(token)
		if err != nil {
			err = fmt.Errorf("GSSAPI: %w", err)
		}
		return answer, done, err
	})
}

func over([]byte) ([]byte, bool, error) { return nil, false, errors.New("the exchange is over") }

// skewMax is how far the clocks of both sides may differ: the usual value of Kerberos.
const skewMax = 5 * time.Minute

// ticket checks a client's ticket, and that it belongs to the client (RFC 4120,
// section 3.2.3).
func (a *accepting) ticket(token []byte) ([]byte, bool, error) {
	body, err := unwrapped(apReq, token)
	if err != nil {
		return nil, false, err
	}
	var req messages.APReq
	if err := req.Unmarshal(body); err != nil {
		return nil, false, err
	}
	if a.as != nil && req.Ticket.Realm != a.realm {
		return nil, false, fmt.Errorf("the ticket is of another realm than %s", a.realm) // the table may have the key of that realm, too
	}
	if err := strong(req.Ticket.EncPart.EType); err != nil {
		return nil, false, err
	}
	keys, err := a.keys.get()
	if err != nil {
		return nil, false, err
	}
	ok, err := req.Verify(keys, skewMax, types.HostAddress{}, a.as)
	if err != nil || !ok {
		return nil, false, errors.Join(errors.New("the ticket is not valid"), err)
	}
	t, who := &req.Ticket.DecryptedEncPart, &req.Authenticator
	if t.CRealm != who.CRealm {
		return nil, false, errors.New("the ticket belongs to another client") // the library compares only the names, not the realms
	}
	if a.ticketOf, err = textOf(t.CName, t.CRealm); err != nil {
		return nil, false, err
	}
	const gss = 0x8003
	if who.Cksum.CksumType != gss || len(who.Cksum.Checksum) < 24 {
		return nil, false, errToken
	}
	if service.GetReplayCache(skewMax).IsReplay(req.Ticket.SName, *who) {
		return nil, false, errors.New("the ticket was shown before")
	}
	a.key, a.number = t.Key, uint64(uint32(who.SeqNumber))
	if len(who.SubKey.KeyValue) > 0 {
		a.key = who.SubKey
	}
	if err := strong(t.Key.KeyType, a.key.KeyType); err != nil {
		return nil, false, err
	}
	const mutual = 2
	if binary.LittleEndian.Uint32(who.Cksum.Checksum[20:])&mutual == 0 {
		return a.offer(nil)
	}
	answer, err := a.answer(t.Key, who)
	a.next = a.offer
	return answer, false, err
}

// answer proves to a client that this side could read its ticket (RFC 4120, section
// 3.2.4).
func (a *accepting) answer(key types.EncryptionKey, who *types.Authenticator) ([]byte, error) {
	part, err := asn1.Marshal(messages.EncAPRepPart{CTime: who.CTime, Cusec: who.Cusec, SequenceNumber: int64(a.number)})
	if err != nil {
		return nil, err
	}
	const usage = 12
	secret, err := crypto.GetEncryptedData(asn1tools.AddASNAppTag(part, 27), key, usage, 0)
	if err != nil {
		return nil, err
	}
	rep, err := asn1.Marshal(messages.APRep{PVNO: 5, MsgType: 15, EncPart: secret})
	if err != nil {
		return nil, err
	}
	return wrapped(apRep, asn1tools.AddASNAppTag(rep, 15)), nil
}

// offer tells the client which protection may follow: none.
func (a *accepting) offer(token []byte) ([]byte, bool, error) {
	if len(token) != 0 {
		return nil, false, errToken
	}
	a.next = a.agree
	answer, err := sealed(a.key, byAcceptor, a.number, noLayer)
	a.number++
	return answer, false, err
}

// agree reads the client's choice of protection and the identity as which it wants to act.
func (a *accepting) agree(token []byte) ([]byte, bool, error) {
	text, err := unsealed(a.key, 0, token)
	if err != nil {
		return nil, false, err
	}
	if len(text) < len(noLayer) || text[0] != noLayer[0] {
		return nil, false, errors.New("the client wants its messages protected: use TLS for that")
	}
	a.proved, a.acts = a.ticketOf, string(text[len(noLayer):])
	if a.acts == "" {
		a.acts = a.proved
	}
	return nil, true, nil
}

// textOf writes a Kerberos name. Parts that contain / or @ are refused, because the text
// would be the name of somebody else.
func textOf(name types.PrincipalName, realm string) (string, error) {
	for _, part := range append([]string{realm}, name.NameString...) {
		if part == "" || strings.ContainsAny(part, "/@\\\x00\r\n") {
			return "", fmt.Errorf("the name %q of realm %q cannot be written", name.NameString, realm)
		}
	}
	if len(name.NameString) == 0 {
		return "", fmt.Errorf("a name of realm %q has no parts", realm)
	}
	return strings.Join(name.NameString, "/") + "@" + realm, nil
}
