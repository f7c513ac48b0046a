package login

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/conclave-project/conclave/internal/sasl"
	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// initiator returns a function that begins exchanges in which this side proves to be
// the principal of a section. Tickets are requested when they are needed, because
// Kerberos may be down at the start.
func (f *File) initiator(section string, m *module) (Begin, error) {
	conf, err := loadKrb5(f.settings.krb5Conf())
	if err != nil {
		return nil, fmt.Errorf("Kerberos' configuration (java.security.krb5.conf, KRB5_CONFIG): %w", err)
	}
	holder := &ticketHolder{conf: conf, cache: openCache(m, conf.LibDefaults.DefaultRealm), turn: make(chan struct{}, 1)}
	if holder.cache != nil && !m.on("useKeyTab") {
		return holder.begin, nil
	}
	if holder.name, holder.realm, err = f.principal(section, m); err != nil {
		return nil, err
	}
	if holder.keys, err = f.nameKeys(section, m); err != nil {
		return nil, err
	}
	if _, err := holder.keys.get(); err != nil {
		if holder.cache == nil {
			return nil, f.wrong(section, "%w", err)
		}
		if _, missing := holder.cache.client(conf); missing != nil {
			return nil, f.wrong(section, "%w; and %w", missing, err)
		}
	}
	return holder.begin, nil
}

// begin is a Begin.
func (h *ticketHolder) begin(ctx context.Context, principal string) (sasl.Client, error) {
	get := func(service string) (shown, error) { return h.get(ctx, service) }
	return &initiating{get: get, to: principal}, nil
}

// ticketHolder gets tickets, for many goroutines.
type ticketHolder struct {
	conf  *config.Config
	name  types.PrincipalName
	realm string
	cache *ticketCache // nil: there is none
	keys  *keyTable    // used while the cache has no ticket; nil: there is none

	turn   chan struct{} // of capacity 1: the goroutine that has put something in owns the fields below
	client *client.Client
	with   any // the keys that client uses
}

// ticketMax is how long to wait for a ticket.
const ticketMax = 10 * time.Second

// shown is what a client shows a service.
type shown struct {
	ticket messages.Ticket
	key    types.EncryptionKey // the session key, which is also in the ticket
	name   types.PrincipalName // whose ticket it is
	realm  string
}

// get returns a ticket for a service. The library does not support contexts: if ctx
// ends while a KDC is silent, the request is left running until the library gives up.
// There is at most one such request.
func (h *ticketHolder) get(ctx context.Context, service string) (shown, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, ticketMax, errors.New("the KDC does not answer"))
	defer cancel()
	silent := func() (shown, error) {
		return shown{}, fmt.Errorf("get a ticket for %s: %w", service, context.Cause(ctx))
	}
	select {
	case h.turn <- struct{}{}:
	case <-ctx.Done():
		return silent()
	}
	var with shown
	asked := make(chan error, 1)
	go func() {
		defer func() { <-h.turn }()
		_, _, err := guarded(func() (_ []byte, _ bool, err error) {
			with, err = h.ask(service)
			return nil, false, err
		})
		asked <- err
	}()
	select {
	case err := <-asked:
		return with, err
	case <-ctx.Done():
		return silent()
	}
}

// ask asks the KDC, unless there is a ticket. The caller must own the turn.
func (h *ticketHolder) ask(service string) (shown, error) {
	c, err := h.current()
	if err != nil {
		return shown{}, err
	}
	ticket, key, err := c.GetServiceTicket(service)
	return shown{ticket, key, c.Credentials.CName(), c.Credentials.Domain()}, err
}

// current returns a client with the current tickets or keys: as in Java, from the cache,
// or from the key table if the cache has no ticket. The caller must own the turn.
func (h *ticketHolder) current() (*client.Client, error) {
	var missing error
	if h.cache != nil {
		c, err := h.cache.client(h.conf)
		if err == nil || h.keys == nil {
			return c, err
		}
		missing = err
	}
	keys, err := h.keys.get()
	switch {
	case err != nil && missing != nil:
		return nil, fmt.Errorf("%w; and %w", missing, err)
	case err != nil:
		return nil, err
	}
	if h.client == nil || h.with != any(keys) {
		if h.client != nil {
			h.client.Destroy()
		}
		h.client = client.NewWithKeytab(h.name.PrincipalNameString(), h.realm, keys, h.conf, client.DisablePAFXFAST(true))
		h.with = keys
	}
	return h.client, nil
}

// initiating is the side that proves its identity.
type initiating struct {
	get func(service string) (shown, error)
	to  string

	next   func(token []byte) ([]byte, bool, error) // nil at the beginning
	key    types.EncryptionKey
	flags  byte   // of messages from this side
	number uint64 // of the next one
	sent   types.Authenticator
	name   string
}

func (*initiating) First() bool { return true }

func (i *initiating) Next(token []byte) ([]byte, bool, error) {
	return guarded(func() ([]byte, bool, error) {
		step := i.next
		if step == nil {
			step = i.show
		}
		i.next = over
		answer, done, err := step(token)
		if err != nil {
			err = fmt.Errorf("GSSAPI: %w", err)
		}
		return answer, done, err
	})
}

// show shows a ticket for the service, and asks it to prove itself, too.
func (i *initiating) show([]byte) ([]byte, bool, error) {
	service, _, _ := strings.Cut(i.to, "@")
	with, err := i.get(service)
	if err != nil {
		return nil, false, err
	}
	if err := strong(with.ticket.EncPart.EType, with.key.KeyType); err != nil {
		return nil, false, err
	}
	who, err := types.NewAuthenticator(with.realm, with.name)
	if err != nil {
		return nil, false, err
	}
	who.Cksum = types.Checksum{CksumType: 0x8003, Checksum: make([]byte, 24)}
	const mutual, integrity = 2, 32
	binary.LittleEndian.PutUint32(who.Cksum.Checksum, 16)
	binary.LittleEndian.PutUint32(who.Cksum.Checksum[20:], mutual|integrity)
	req, err := messages.NewAPReq(with.ticket, with.key, who)
	if err != nil {
		return nil, false, err
	}
	const mutualRequired = 2
	types.SetFlag(&req.APOptions, mutualRequired)
	body, err := req.Marshal()
	if err != nil {
		return nil, false, err
	}
	if i.name, err = textOf(who.CName, who.CRealm); err != nil {
		return nil, false, err
	}
	i.key, i.sent, i.number = with.key, who, uint64(who.SeqNumber)
	i.next = i.confirm
	return wrapped(apReq, body), false, nil
}

// confirm takes the service's proof that it could read the ticket.
func (i *initiating) confirm(token []byte) ([]byte, bool, error) {
	body, err := unwrapped(apRep, token)
	if err != nil {
		return nil, false, err
	}
	var rep messages.APRep
	if err := rep.Unmarshal(body); err != nil {
		return nil, false, err
	}
	const usage = 12
	text, err := crypto.DecryptEncPart(rep.EncPart, i.key, usage)
	if err != nil {
		return nil, false, err
	}
	var part messages.EncAPRepPart
	if err := part.Unmarshal(text); err != nil {
		return nil, false, err
	}
	if !part.CTime.Equal(i.sent.CTime.Truncate(1e9)) || part.Cusec != i.sent.Cusec {
		return nil, false, errors.New("the service answers to another ticket")
	}
	if len(part.Subkey.KeyValue) > 0 {
		i.key, i.flags = part.Subkey, acceptorSubkey
		if err := strong(i.key.KeyType); err != nil {
			return nil, false, err
		}
	}
	i.next = i.choose
	return []byte{}, false, nil
}

// choose agrees that no further messages are protected, and does not ask to act as another
// identity.
func (i *initiating) choose(token []byte) ([]byte, bool, error) {
	offered, err := unsealed(i.key, byAcceptor, token)
	if err != nil {
		return nil, false, err
	}
	if len(offered) != len(noLayer) || offered[0]&noLayer[0] == 0 {
		return nil, false, errors.New("the service insists that messages are protected")
	}
	answer, err := sealed(i.key, i.flags, i.number, append(bytes.Clone(noLayer), i.name...))
	return answer, err == nil, err
}
