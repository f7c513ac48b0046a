package sasl

import (
	"crypto/md5"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// Digest names the service that a DIGEST-MD5 proof is for. Both sides must use the same values.
type Digest struct {
	Protocol string // for instance zookeeper
	Host     string // for instance zk-sasl-md5; ZooKeeper's realm has the same name
}

// uri returns the digest-uri of a proof: the service for which it is valid.
func (d Digest) uri() string { return d.Protocol + "/" + d.Host }

// errRefused is the only error for a wrong proof: it must not reveal whether the user
// exists.
var errRefused = errors.New("sasl: unknown user or wrong password")

// DigestServer begins an exchange in which a client proves that it knows the password of
// a user. password returns the password of a user.
func DigestServer(d Digest, password func(user string) (string, bool)) Server {
	return &digestServer{Digest: d, password: password}
}

type digestServer struct {
	Digest
	password func(user string) (string, bool)
	nonce    string
	proved   string
	acts     string
	steps    int
}

func (s *digestServer) Names() (proved, acts string) { return s.proved, s.acts }

func (s *digestServer) Next(token []byte) ([]byte, bool, error) {
	s.steps++
	switch {
	case s.steps == 1 && len(token) == 0:
		s.nonce = nonce()
		return fmt.Appendf(nil, `realm="%s",nonce="%s",charset=utf-8,algorithm=md5-sess`, s.Host, s.nonce), false, nil
	case s.steps == 1:
		return nil, false, errors.New("sasl: DIGEST-MD5 begins with an empty token, so the client uses another mechanism")
	case s.steps == 2:
		answer, err := s.judge(token)
		return answer, err == nil, err
	}
	return nil, false, errors.New("sasl: the exchange has ended")
}

// judge checks a client's proof and returns the server's own (RFC 2831, section 2.1.3).
func (s *digestServer) judge(token []byte) ([]byte, error) {
	said, err := directives(token)
	if err != nil {
		return nil, err
	}
	p := proof{
		user: said["username"], realm: said["realm"], acts: said["authzid"],
		nonce: said["nonce"], cnonce: said["cnonce"], nc: said["nc"], uri: said["digest-uri"],
	}
	switch {
	case p.user == "" || p.cnonce == "" || said["response"] == "":
		return nil, errors.New("sasl: a response lacks username, cnonce or response")
	case p.realm != s.Host && p.realm != "":
		return nil, fmt.Errorf("sasl: realm %q is not %q", p.realm, s.Host)
	case p.nonce != s.nonce || p.nc != "00000001":
		return nil, errors.New("sasl: the response is to another challenge")
	case !strings.EqualFold(p.uri, s.uri()):
		return nil, fmt.Errorf("sasl: the response is for %q, not for %q", p.uri, s.uri())
	case said["qop"] != "" && said["qop"] != "auth":
		return nil, fmt.Errorf("sasl: quality of protection %q is not served, auth is", said["qop"])
	}
	password, known := s.password(p.user)
	p.password = password
	if good := p.response("AUTHENTICATE"); subtle.ConstantTimeCompare([]byte(good), []byte(said["response"])) != 1 || !known {
		return nil, errRefused
	}
	s.proved, s.acts = p.user, p.acts
	if s.acts == "" {
		s.acts = s.proved
	}
	return []byte("rspauth=" + p.response("")), nil
}

// DigestClient begins an exchange in which this side proves that it knows the password of
// a user. The server proves the same in the end.
func DigestClient(d Digest, user, password string) Client {
	return &digestClient{d: d, p: proof{user: user, password: password, nc: "00000001", uri: d.uri()}}
}

type digestClient struct {
	d     Digest
	p     proof
	steps int
}

func (*digestClient) First() bool { return false }

func (c *digestClient) Next(token []byte) ([]byte, bool, error) {
	said, err := directives(token)
	if err != nil {
		return nil, false, err
	}
	c.steps++
	switch c.steps {
	case 1:
		answer, err := c.respond(said)
		return answer, false, err
	case 2:
		if subtle.ConstantTimeCompare([]byte(said["rspauth"]), []byte(c.p.response(""))) != 1 {
			return nil, false, errors.New("sasl: the server has not proved that it knows the password")
		}
		return nil, true, nil
	}
	return nil, false, errors.New("sasl: the exchange has ended")
}

// respond answers a challenge (RFC 2831, section 2.1.2).
func (c *digestClient) respond(said map[string]string) ([]byte, error) {
	p := &c.p
	p.nonce, p.realm, p.cnonce = said["nonce"], said["realm"], nonce()
	switch {
	case p.nonce == "" || said["algorithm"] != "md5-sess":
		return nil, errors.New("sasl: the challenge is not one of DIGEST-MD5")
	case said["qop"] != "" && !offers(said["qop"], "auth"):
		return nil, fmt.Errorf("sasl: the server insists on %q, and auth is spoken here", said["qop"])
	}
	if p.realm == "" {
		p.realm = c.d.Host
	}
	b := fmt.Appendf(nil, `charset=utf-8,username=%s,realm=%s,nonce=%s,nc=%s,cnonce=%s,digest-uri=%s,response=%s,qop=auth`,
		quoted(p.user), quoted(p.realm), quoted(p.nonce), p.nc, quoted(p.cnonce), quoted(p.uri), p.response("AUTHENTICATE"))
	return b, nil
}

func offers(list, want string) bool {
	for one := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(one) == want {
			return true
		}
	}
	return false
}

// proof holds the values from which a response is computed.
type proof struct {
	user, realm, password, acts string
	nonce, cnonce, nc, uri      string
}

// response returns the digest that proves the password. The client's method is
// AUTHENTICATE, the server's is empty.
func (p *proof) response(method string) string {
	secret := md5.Sum([]byte(narrow(p.user) + ":" + narrow(p.realm) + ":" + narrow(p.password)))
	a1 := string(secret[:]) + ":" + p.nonce + ":" + p.cnonce
	if p.acts != "" {
		a1 += ":" + p.acts
	}
	return digest(digest(a1) + ":" + p.nonce + ":" + p.nc + ":" + p.cnonce + ":auth:" + digest(method+":"+p.uri))
}

func digest(s string) string {
	sum := md5.Sum([]byte(s))
	return hex.EncodeToString(sum[:])
}

// narrow encodes a text for hashing: in ISO 8859-1 if possible, else in UTF-8
// (RFC 2831, section 2.1.2.1).
func narrow(s string) string {
	b := make([]byte, 0, len(s))
	for _, r := range s {
		if r > 0xff {
			return s
		}
		b = append(b, byte(r))
	}
	return string(b)
}

func nonce() string {
	var b [30]byte
	rand.Read(b[:]) // never fails
	return base64.StdEncoding.EncodeToString(b[:])
}

func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// digestBytesMax is the longest challenge or response (RFC 2831, sections 2.1.1 and 2.1.2).
const digestBytesMax = 4096

// directives reads name=value, name="value", each name once.
func directives(token []byte) (map[string]string, error) {
	if len(token) > digestBytesMax {
		return nil, fmt.Errorf("sasl: a token of %d bytes, DIGEST-MD5 has at most %d", len(token), digestBytesMax)
	}
	malformed := errors.New("sasl: the token is not of DIGEST-MD5")
	all := map[string]string{}
	rest := strings.Trim(string(token), " \t\r\n,")
	for rest != "" {
		name, after, ok := strings.Cut(rest, "=")
		name = strings.ToLower(strings.TrimSpace(name))
		if _, twice := all[name]; !ok || name == "" || twice {
			return nil, malformed
		}
		after = strings.TrimLeft(after, " \t\r\n")
		var value string
		if strings.HasPrefix(after, `"`) {
			if value, after, ok = unquoted(after[1:]); !ok {
				return nil, malformed
			}
			after = strings.TrimLeft(after, " \t\r\n")
			if after != "" && after[0] != ',' {
				return nil, malformed
			}
		} else {
			at := strings.IndexByte(after, ',')
			if at < 0 {
				at = len(after)
			}
			value, after = strings.TrimSpace(after[:at]), after[at:]
		}
		all[name] = value
		rest = strings.TrimLeft(after, " \t\r\n,")
	}
	return all, nil
}

// unquoted reads a quoted text up to its closing quotation mark.
func unquoted(s string) (value, rest string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), s[i+1:], true
		case '\\':
			i++
			if i == len(s) {
				return "", "", false
			}
		}
		b.WriteByte(s[i])
	}
	return "", "", false
}
