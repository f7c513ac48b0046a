package auth

import (
	"slices"
	"testing"

	"github.com/conclave-project/conclave/internal/acl"
	"github.com/conclave-project/conclave/zk"
)

// Apache's KerberosName and SaslServerCallbackHandler turn the same names into these
// identities.
func TestNamesBecomeIdentitiesByTheRules(t *testing.T) {
	for _, c := range []struct {
		rules           string
		noHost, noRealm bool
		name, want      string
	}{
		{"DEFAULT", false, false, "bob", "bob"},
		{"DEFAULT", false, false, "bob@EXAMPLE.COM", "bob@EXAMPLE.COM"},
		{"DEFAULT", false, false, "kafka/h1@EXAMPLE.COM", "kafka/h1@EXAMPLE.COM"},
		{"DEFAULT", true, false, "kafka/h1@EXAMPLE.COM", "kafka@EXAMPLE.COM"},
		{"DEFAULT", true, true, "kafka/h1@EXAMPLE.COM", "kafka"},
		{"DEFAULT", false, true, "kafka/h1@EXAMPLE.COM", "kafka/h1"},
		{"DEFAULT", true, true, "kafka/h1@OTHER.COM", "kafka/h1@OTHER.COM"},
		{"RULE:[2:$1@$0](.*@OTHER\\.COM)s/@.*// DEFAULT", true, true, "kafka/h1@OTHER.COM", "kafka"},
		{"RULE:[1:$1]s/b/x/ DEFAULT", true, true, "bobby@OTHER.COM", "xobby"},
		{"RULE:[1:$1]s/b/x/g DEFAULT", true, true, "bobby@OTHER.COM", "xoxxy"},
		{"RULE:[1:$1]s/(b)(o)/$2$1/ DEFAULT", true, true, "bobby@OTHER.COM", "obbby"},
		{"RULE:[1:$1](a.*)\nRULE:[1:x$1]", true, true, "bob@OTHER.COM", "xbob"},
		{"RULE:[1:$1@$0]", true, true, "bob@OTHER.COM", "bob@OTHER.COM"}, // not a short name: the rule fails
		{"", true, true, "kafka/h1@EXAMPLE.COM", "kafka/h1@EXAMPLE.COM"}, // no rules, so none applies
		{"", true, true, "admin@OTHER.COM", "admin@OTHER.COM"},
		{" ", false, true, "admin@OTHER.COM", "admin@OTHER.COM"},
		{"", true, true, "bob", "bob"},
	} {
		rules, err := NameRules(c.rules, "EXAMPLE.COM")
		if err != nil {
			t.Errorf("%q: %v", c.rules, err)
			continue
		}
		p := Principals{Rules: rules, NoHost: c.noHost, NoRealm: c.noRealm}
		if got := p.Proved(c.name); len(got) != 1 || got[0] != (zk.Identity{Scheme: "sasl", ID: c.want}) {
			t.Errorf("%q, %v, %v: %s is %v, want %s", c.rules, c.noHost, c.noRealm, c.name, got, c.want)
		}
	}
	for _, bad := range []string{"RULE", "DEFAULT x", "RULE:[x:$1]", "RULE:[1:$2]", "RULE:[1:$1](()", "RULE:[1:$1]s/(//"} {
		if _, err := NameRules(bad, ""); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestListsOfPrincipals(t *testing.T) {
	r := Rules{SASL: true, Principals: Principals{Supers: []string{"root"}, AnyoneAs: "anyone"}}
	list := []zk.ACL{entry(zk.PermWrite, "sasl", "bob"), entry(zk.PermRead, "sasl", "anyone")}
	if _, err := r.Fix("/a", list, nil, 0); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		who  string
		perm zk.Perms
		want bool
	}{
		{"bob", zk.PermWrite, true}, {"bob", zk.PermRead, true}, {"alice", zk.PermRead, true}, {"alice", zk.PermWrite, false},
		{"root", zk.PermAdmin, true}, {"super", zk.PermWrite, true}, {"super", zk.PermAdmin, false},
	} {
		if got := r.Allow(acl.New(list), c.perm, r.Principals.Proved(c.who)); got != c.want {
			t.Errorf("%s, %v: %v", c.who, c.perm, got)
		}
	}
	long := append([]zk.ACL{entry(1, "ip", "1.2.3.4"), entry(1, "digest", "a:b")}, list...)
	if !r.Allow(acl.New(long), zk.PermWrite, r.Principals.Proved("super")) || r.Allow(acl.New(long), zk.PermAdmin, r.Principals.Proved("super")) {
		t.Error("super has not what anybody has on a long list")
	}
	for id, valid := range map[string]bool{"bob": true, "a/b@C": true, "a/b/c": true, "a@b@c": false, "a/b/c@D": false, "a@b/c": false} {
		if _, err := r.Fix("/a", []zk.ACL{entry(1, "sasl", id)}, nil, 0); (err == nil) != valid {
			t.Errorf("%s: %v", id, err)
		}
	}
	if _, err := r.Authenticate("sasl", []byte("bob"), ""); err != zk.ErrAuthFailed {
		t.Errorf("who says a name has it: %v", err)
	}
	without := Rules{}
	if _, err := without.Fix("/a", list, nil, 0); err != zk.ErrInvalidACL {
		t.Errorf("without SASL: %v", err)
	}
	if without.Allow(acl.New(list), zk.PermRead, r.Principals.Proved("bob")) {
		t.Error("an identity of a scheme that is not served opens a list")
	}
	if got := r.expand(31, r.Principals.Proved("bob")); !slices.Equal(got, []zk.ACL{entry(31, "sasl", "bob")}) {
		t.Error(got)
	}
}
