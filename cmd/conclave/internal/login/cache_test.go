package login

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/sasl"
)

// cacheOf returns the file that kinit writes for a client, plus a ticket for the service.
func (r *realm) cacheOf(client string, until time.Time) string {
	r.t.Helper()
	b := []byte{5, 4, 0, 0} // version 4, and no headers
	data := func(text []byte) { b = append(binary.BigEndian.AppendUint32(b, uint32(len(text))), text...) }
	name := func(principal string) {
		parts := strings.Split(principal, "/")
		b = binary.BigEndian.AppendUint32(b, 1)
		b = binary.BigEndian.AppendUint32(b, uint32(len(parts)))
		data([]byte(r.name))
		for _, part := range parts {
			data([]byte(part))
		}
	}
	name(client)
	for _, service := range []string{"krbtgt/" + r.name, "zookeeper/h1"} {
		with := r.ticket(client, service, 1, until)
		ticket, err := with.ticket.Marshal()
		if err != nil {
			r.t.Fatal(err)
		}
		name(client)
		name(service)
		b = binary.BigEndian.AppendUint16(b, uint16(with.key.KeyType))
		data(with.key.KeyValue)
		from := uint32(time.Now().Add(-time.Hour).Unix())
		for _, at := range []uint32{from, from, uint32(until.Unix()), 0} {
			b = binary.BigEndian.AppendUint32(b, at)
		}
		b = append(b, make([]byte, 1+4+4+4)...) // no session key, flags, addresses or data
		data(ticket)
		data(nil)
	}
	return written(r.t, "krb5cc", string(b))
}

// ticketed is a realm that gives tickets to app/h2.
func ticketed(t *testing.T) *realm {
	r := newRealm(t, 18)
	r.add("krbtgt/"+r.name, 1)
	r.add("app/h2", 1)
	return r
}

// asks returns the krb5.conf of a realm with a KDC.
func asks(t *testing.T, kdc net.Listener) string {
	return written(t, "krb5.conf", fmt.Sprintf("[libdefaults]\n default_realm = EXAMPLE.COM\n udp_preference_limit = 1\n"+
		"[realms]\n EXAMPLE.COM = {\n  kdc = %s\n }\n", kdc.Addr()))
}

// begins opens a section Client with options.
func begins(t *testing.T, conf, options string) (Begin, error) {
	t.Helper()
	f, err := Open(Settings{File: written(t, "jaas.conf", "Client { com.sun.security.auth.module.Krb5LoginModule required "+options+"; };"),
		Krb5Conf: conf, FIPS: true})
	if err != nil {
		t.Fatal(err)
	}
	return f.Client("Client", Clients)
}

func begun(t *testing.T, ctx context.Context, begin Begin) sasl.Client {
	t.Helper()
	c, err := begin(ctx, "zookeeper/h1")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// If there is also a key table, the cache is used while it has a ticket of the
// configured principal, as in Java; otherwise the KDC is asked with the key table.
func TestKeyTableCountsWhereTheCacheHasNoTicket(t *testing.T) {
	r := ticketed(t)
	both := `useTicketCache=true useKeyTab=true keyTab="` + r.path + `" principal="app/h2@EXAMPLE.COM" ticketCache="`
	none := filepath.Join(t.TempDir(), "none")
	for name, cache := range map[string]string{
		"none": none, "another's": r.cacheOf("bob", soon()), "over": r.cacheOf("app/h2", time.Now().Add(-time.Minute)),
		"empty": written(t, "krb5cc", ""), "cut short": written(t, "krb5cc", "\x05\x04\x00\x00\x00\x00"), "no file": "KEYRING:persistent:0",
	} {
		t.Run(name, func(t *testing.T) {
			kdc := silent(t)
			begin, err := begins(t, asks(t, kdc), both+cache+`"`)
			if err != nil {
				t.Fatal(err)
			}
			ctx, end := context.WithCancel(awaittest.Within(t))
			ended := make(chan error, 1)
			go func() {
				c, err := begin(ctx, "zookeeper/h1")
				if err == nil {
					_, _, err = c.Next(nil)
				}
				ended <- err
			}()
			asked := make(chan string, 1)
			go func() {
				c, err := kdc.Accept()
				if err != nil {
					return
				}
				// The connection stays open until the request is checked: a KDC that closes it ends
				// begin.
				defer c.Close()
				defer func() { <-ctx.Done() }()
				var request [4096]byte
				n, _ := c.Read(request[:])
				if n == 4 {
					n, _ = c.Read(request[:])
				}
				asked <- string(request[:n])
			}()
			select {
			case request := <-asked:
				if !strings.Contains(request, "krbtgt") || !strings.Contains(request, "h2") {
					t.Errorf("the KDC is asked %q", request)
				}
				end()
				<-ended
			case err := <-ended:
				t.Errorf("the KDC is not asked: %v", err)
				end()
			}
		})
	}
	conf := asks(t, silent(t))
	begin, err := begins(t, conf, both+r.cacheOf("app/h2", soon())+`"`)
	if err != nil {
		t.Fatal(err)
	}
	s := r.server("*")()
	if err := meet(s, begun(t, awaittest.Within(t), begin)); err != nil {
		t.Errorf("with a ticket in the cache: %v", err)
	}
	if proved, _ := s.Names(); proved != "app/h2@EXAMPLE.COM" {
		t.Errorf("proved is %q", proved)
	}
	if _, err := begins(t, conf, strings.Replace(both, r.path, none, 1)+none+`"`); err == nil || !strings.Contains(err.Error(), "ticketCache: open "+none) ||
		!strings.Contains(err.Error(), "keyTab: stat "+none) {
		t.Errorf("neither is there: %v", err)
	}
}

// A cache alone serves the configured principal, or its own if none is configured; the
// error says what to do.
func TestTicketOfAnotherIsNotShown(t *testing.T) {
	r, conf := ticketed(t), asks(t, silent(t))
	for name, c := range map[string]struct{ cache, principal, want string }{
		"its own":             {r.cacheOf("app/h2", soon()), "app/h2@EXAMPLE.COM", ""},
		"by the default":      {r.cacheOf("app/h2", soon()), "app/h2", ""},
		"anybody's":           {r.cacheOf("bob", soon()), "", ""},
		"another's":           {r.cacheOf("bob", soon()), "app/h2@EXAMPLE.COM", "has the ticket of bob@EXAMPLE.COM, not of app/h2@EXAMPLE.COM: run kinit app/h2@EXAMPLE.COM"},
		"of another realm":    {r.cacheOf("app/h2", soon()), "app/h2@OTHER.COM", "not of app/h2@OTHER.COM"},
		"over":                {r.cacheOf("app/h2", time.Now().Add(-time.Minute)), "", "expired at"},
		"empty":               {written(t, "krb5cc", ""), "", "is damaged"},
		"of no principal":     {written(t, "krb5cc", "\x05\x04\x00\x00\x00\x00"), "", "is damaged"},
		"not in a file":       {"KEYRING:persistent:0", "", "only a cache in a file is read"},
		"not there, and none": {filepath.Join(t.TempDir(), "none"), "", "run kinit"},
	} {
		options := `useTicketCache=true ticketCache="` + c.cache + `"`
		if c.principal != "" {
			options += ` principal="` + c.principal + `"`
		}
		begin, err := begins(t, conf, options)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_, _, err = begun(t, awaittest.Within(t), begin).Next(nil)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	whole, err := os.ReadFile(r.cacheOf("app/h2", soon()))
	if err != nil {
		t.Fatal(err)
	}
	for at := range whole {
		cut := &ticketCache{path: written(t, "krb5cc", string(bytes.Clone(whole[:at])))}
		if _, err := cut.read(); err == nil && at < len(whole)/2 {
			t.Errorf("the first %d bytes are a cache", at)
		}
	}
}
