package sasl

import (
	"strings"
	"testing"
)

var zookeeper = Digest{Protocol: "zookeeper", Host: "zk-sasl-md5"}

func passwords(user string) (string, bool) {
	p, ok := map[string]string{"bob": "secret", "Zoë": "pä\"ss\\", "漢字": "密碼", "empty": ""}[user]
	return p, ok
}

// exchange lets both sides talk until one of them ends it.
func exchange(t *testing.T, s Server, c Client) error {
	t.Helper()
	token := []byte{}
	for range 5 {
		challenge, served, err := s.Next(token)
		if err != nil {
			return err
		}
		answer, done, err := c.Next(challenge)
		if err != nil {
			return err
		}
		if served && done {
			return nil
		}
		token = answer
	}
	t.Fatal("no end")
	return nil
}

func TestTheOneWhoKnowsThePasswordIsAccepted(t *testing.T) {
	for _, user := range []string{"bob", "Zoë", "漢字", "empty"} {
		password, _ := passwords(user)
		s := DigestServer(zookeeper, passwords)
		if err := exchange(t, s, DigestClient(zookeeper, user, password)); err != nil {
			t.Errorf("%s: %v", user, err)
		}
		if proved, acts := s.Names(); proved != user || acts != user {
			t.Errorf("%s is %q, acts as %q", user, proved, acts)
		}
	}
}

func TestNobodyElseIsAccepted(t *testing.T) {
	for _, c := range []struct{ user, password string }{{"bob", "Secret"}, {"bob", ""}, {"alice", ""}, {"", ""}, {"super", "secret"}} {
		s := DigestServer(zookeeper, passwords)
		if err := exchange(t, s, DigestClient(zookeeper, c.user, c.password)); err == nil {
			t.Errorf("%q with %q is accepted", c.user, c.password)
		}
		if proved, acts := s.Names(); proved != "" || acts != "" {
			t.Errorf("%q is %q, %q", c.user, proved, acts)
		}
	}
	other := Digest{Protocol: "zookeeper-quorum", Host: "zk-quorum-sasl-md5"}
	if exchange(t, DigestServer(zookeeper, passwords), DigestClient(other, "bob", "secret")) == nil {
		t.Error("a proof for another service is accepted")
	}
}

// A client does not accept a server that does not know its password.
func TestServerProvesItselfToo(t *testing.T) {
	forged := DigestServer(zookeeper, func(string) (string, bool) { return "guess", true })
	c := DigestClient(zookeeper, "bob", "secret")
	challenge, _, _ := forged.Next(nil)
	if _, _, err := c.Next(challenge); err != nil {
		t.Fatal(err)
	}
	if _, done, err := c.Next([]byte("rspauth=" + strings.Repeat("0", 32))); err == nil || done {
		t.Error("the client accepts a server without the password")
	}
}

// The example of RFC 2831, section 4.
func TestResponsesAreThoseOfTheRFC(t *testing.T) {
	p := proof{
		user: "chris", realm: "elwood.innosoft.com", password: "secret", nonce: "OA6MG9tEQGm2hh",
		cnonce: "OA6MHXh6VqTrRk", nc: "00000001", uri: "imap/elwood.innosoft.com",
	}
	if got := p.response("AUTHENTICATE"); got != "d388dad90d4bbd760a152321f2143af7" {
		t.Error(got)
	}
	if got := p.response(""); got != "ea40f60335c427b5527b84dbabcdfffd" {
		t.Error(got)
	}
}

func TestResponsesToOtherChallengesAreRefused(t *testing.T) {
	reply := func(change func(string) string) error {
		s, c := DigestServer(zookeeper, passwords), DigestClient(zookeeper, "bob", "secret")
		challenge, _, _ := s.Next(nil)
		response, _, err := c.Next(challenge)
		if err != nil {
			t.Fatal(err)
		}
		_, done, err := s.Next([]byte(change(string(response))))
		if done != (err == nil) {
			t.Errorf("done is %v, and the error %v", done, err)
		}
		return err
	}
	if err := reply(func(r string) string { return r }); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(string) string{
		"another nonce": func(r string) string { return strings.Replace(r, `,nonce="`, `,nonce="x`, 1) },
		"again":         func(r string) string { return strings.Replace(r, "nc=00000001", "nc=00000002", 1) },
		"another realm": func(r string) string { return strings.Replace(r, `realm="zk-`, `realm="x-`, 1) },
		"another use":   func(r string) string { return strings.Replace(r, `"zookeeper/`, `"kafka/`, 1) },
		"a layer":       func(r string) string { return strings.Replace(r, "qop=auth", "qop=auth-int", 1) },
		"twice":         func(r string) string { return r + `,username="bob"` },
		"another's":     func(r string) string { return strings.Replace(r, `"bob"`, `"empty"`, 1) },
		"as somebody":   func(r string) string { return r + `,authzid="super"` },
		"cut":           func(r string) string { return r[:len(r)/2] },
		"an open quote": func(r string) string { return r + `,x="` },
		"nothing":       func(string) string { return "" },
		"long":          func(r string) string { return r + strings.Repeat(" ", digestBytesMax) },
	} {
		if reply(change) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// After it is done, an exchange accepts no second proof: a client cannot change its identity within
// it.
func TestAnExchangeIsForOneProof(t *testing.T) {
	s, c := DigestServer(zookeeper, passwords), DigestClient(zookeeper, "bob", "secret")
	if err := exchange(t, s, c); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Next(nil); err == nil {
		t.Error("it begins again")
	}
	if proved, _ := s.Names(); proved != "bob" {
		t.Error(proved)
	}
}

func FuzzDigestTokens(f *testing.F) {
	f.Add([]byte(`charset=utf-8,username="bob",realm="zk-sasl-md5",nonce="x",nc=00000001,cnonce="y",digest-uri="zookeeper/zk-sasl-md5",response=z,qop=auth`))
	f.Add([]byte(`a="\`))
	f.Fuzz(func(t *testing.T, token []byte) {
		s := DigestServer(zookeeper, passwords)
		s.Next(nil)
		if _, done, err := s.Next(token); done || err == nil {
			t.Fatal("a token that knows no challenge is a proof")
		}
		c := DigestClient(zookeeper, "bob", "secret")
		if answer, _, err := c.Next(token); err == nil && len(answer) == 0 {
			t.Fatal("neither an answer nor an error")
		}
	})
}
