package auth

import (
	"errors"
	"slices"
	"testing"

	"github.com/conclave-project/conclave/internal/acl"
	"github.com/conclave-project/conclave/zk"
)

func ids(texts ...string) (all []zk.Identity) {
	for i := 0; i < len(texts); i += 2 {
		all = append(all, zk.Identity{Scheme: texts[i], ID: texts[i+1]})
	}
	return all
}

// TestWhatACertificateProvesByItsDomains: the same as assignAuthInfo of X509ZNodeGroupAclProvider.
func TestWhatACertificateProvesByItsDomains(t *testing.T) {
	for name, c := range map[string]struct {
		groups  Groups
		domains []string
		want    []zk.Identity
		err     error
	}{
		"its domains":                        {Groups{}, []string{"a", "b"}, ids("x509", "a", "x509", "b"), nil},
		"none":                               {Groups{}, nil, ids("x509", "me"), nil},
		"domains and the id":                 {Groups{KeepID: true}, []string{"a"}, ids("x509", "a", "x509", "me"), nil},
		"super user, whatever the domains":   {Groups{Supers: []string{"me"}, Dedicated: "b"}, []string{"a"}, ids("super", "me"), nil},
		"a super user's domain is none":      {Groups{Supers: []string{"a"}}, []string{"a"}, ids("x509", "a"), nil},
		"cross domain":                       {Groups{CrossDomains: []string{"b", "c"}, KeepID: true, Dedicated: "a"}, []string{"a", "b", "c"}, ids("super", "b", "super", "c"), nil},
		"dedicated":                          {Groups{Dedicated: "a", KeepID: true}, []string{"a", "b"}, ids("x509", "me"), nil},
		"dedicated to another":               {Groups{Dedicated: "c"}, []string{"a", "b"}, nil, ErrOtherDomain},
		"dedicated, and in none":             {Groups{Dedicated: "c"}, nil, nil, ErrOtherDomain},
		"dedicated to another, not enforced": {Groups{Dedicated: "c", Lenient: true}, []string{"a"}, nil, nil},
	} {
		r := Rules{Groups: c.groups}
		if got, err := r.Grouped("me", c.domains); !slices.Equal(got, c.want) || !errors.Is(err, c.err) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// TestSuperUserByACertificateHasProvedItself: it passes where x509 is enforced.
func TestSuperUserByACertificateHasProvedItself(t *testing.T) {
	r := Rules{Enforce: []string{"x509"}}
	for id, want := range map[zk.Identity]bool{{Scheme: "super", ID: "me"}: true, Super: false, {Scheme: "x509", ID: "a"}: true, {Scheme: "ip", ID: "::1"}: false} {
		if r.Admits([]zk.Identity{id}) != want {
			t.Errorf("%v is let in: %v", id, !want)
		}
	}
}

// TestMapChangesWhatACertificateHasProvedAlone: it keeps the address and what passwords proved.
func TestMapChangesWhatACertificateHasProvedAlone(t *testing.T) {
	have := ids("ip", "1.2.3.4", "x509", "a", "super", "b", "digest", "u:h", "super", "", "sasl", "n")
	want := ids("ip", "1.2.3.4", "digest", "u:h", "super", "", "sasl", "n", "x509", "c")
	if got := Regrouped(have, ids("x509", "c")); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

// TestListsThatGroupsSet runs the cases of the provider's TestFixupACL, and more.
func TestListsThatGroupsSet(t *testing.T) {
	asked := []zk.ACL{entry(31, "x509", "toBeAdded"), entry(31, "world", "anyone")}
	all := func(names ...string) (list []zk.ACL) {
		for _, name := range names {
			list = append(list, entry(31, "x509", name))
		}
		return list
	}
	on := Groups{On: true, OwnACL: true, Supers: []string{"superUserId"}}
	with := func(change func(*Groups)) Groups {
		g := on
		change(&g)
		return g
	}
	readers := entry(1, "world", "anyone")
	for name, c := range map[string]struct {
		groups Groups
		who    []zk.Identity
		want   []zk.ACL
	}{
		"cross domain":        {on, ids("super", "crossDomain"), all("crossDomain")},
		"super user":          {on, ids("super", "superUserId"), asked},
		"super by a password": {on, ids("digest", "s:h", "super", ""), asked},
		"one domain":          {on, ids("ip", "1.2.3.4", "x509", "domain"), all("domain")},
		"several":             {on, ids("x509", "domain1", "x509", "domain2"), all("domain1", "domain2")},
		"without TLS":         {on, ids("ip", "127.0.0.1"), asked},
		"dedicated":           {with(func(g *Groups) { g.Dedicated = "d" }), ids("x509", "d"), asked},
		"off":                 {with(func(g *Groups) { g.OwnACL = false }), ids("x509", "d"), asked},
		"another provider":    {with(func(g *Groups) { g.On = false }), ids("x509", "CN=d"), []zk.ACL{entry(31, "world", "anyone")}},
		"some domains":        {Groups{On: true, OwnACLOf: []string{"d0", "d1"}}, ids("x509", "d0", "x509", "d1", "x509", "d2"), all("d0", "d1")},
		"none of those":       {Groups{On: true, OwnACLOf: []string{"d0"}}, ids("x509", "d2"), asked},
		"open to read":        {with(func(g *Groups) { g.OpenRead = []string{"/open"} }), ids("x509", "d"), append(all("d"), readers)},
		"open to read, asked": {with(func(g *Groups) { g.OpenRead = []string{"/no", "/op"} }), ids("super", "superUserId"), append([]zk.ACL{readers}, asked...)},
		"elsewhere":           {with(func(g *Groups) { g.OpenRead = []string{"/open/path/below"} }), ids("x509", "d"), all("d")},
	} {
		r := Rules{X509: true, Groups: c.groups}
		list := asked
		if !c.groups.On {
			list = asked[1:] // the other one is not a valid X.500 name
		}
		if got, err := r.Fix("/open/path", list, c.who, 0); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		if _, err := r.Fix("/open/path", nil, c.who, 0); !errors.Is(err, zk.ErrInvalidACL) {
			t.Errorf("%s: an empty list: %v", name, err)
		}
	}
	r := Rules{X509: true, Groups: on}
	if _, err := r.Fix("/a", asked, ids("x509", "domain"), 10); !errors.Is(err, zk.ErrBadArguments) {
		t.Errorf("a list that no transaction holds: %v", err)
	}
	if _, err := (&Rules{X509: true}).Fix("/a", asked, nil, 0); !errors.Is(err, zk.ErrInvalidACL) {
		t.Errorf("a domain in a list without the provider: %v", err)
	}
}

// TestMapThatEverybodyMayChangeIsNotGuarded: the map decides who may do everything.
func TestMapThatEverybodyMayChangeIsNotGuarded(t *testing.T) {
	for _, c := range []struct {
		list []zk.ACL
		want bool
	}{
		{[]zk.ACL{entry(31, "world", "anyone")}, false},
		{[]zk.ACL{entry(1, "world", "anyone"), entry(31, "x509", "admins")}, true},
		{[]zk.ACL{entry(4, "world", "anyone")}, false},
		{[]zk.ACL{entry(31, "x509", "admins")}, true},
	} {
		list := acl.New(c.list)
		if got := (&Rules{}).Guarded(list); got != c.want {
			t.Errorf("%v: %v", c.list, got)
		}
		if !(&Rules{SkipACL: true}).Guarded(list) {
			t.Errorf("%v does not count though no list counts", c.list)
		}
	}
	if (&Rules{}).Guarded(acl.List{}) {
		t.Error("an empty list counts")
	}
}
