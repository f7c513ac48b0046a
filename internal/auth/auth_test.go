package auth

import (
	"slices"
	"testing"

	"github.com/conclave-project/conclave/internal/acl"
	"github.com/conclave-project/conclave/zk"
)

func entry(perms zk.Perms, scheme, id string) zk.ACL {
	return zk.ACL{Perms: perms, Identity: zk.Identity{Scheme: scheme, ID: id}}
}

func TestDigestsAreZooKeepers(t *testing.T) {
	for credential, want := range map[string]string{
		"super:admin": "super:xQJmxLMiHGwaqBvst5y6rkB6HQs=",
		"bob:secret":  "bob:fyVmFCwVbTJYrznoSu1koqYEYF0=",
	} {
		if got := Digest(credential); got != want {
			t.Errorf("%s: %s, want %s", credential, got, want)
		}
	}
}

func TestNullCredentialProvesNothing(t *testing.T) {
	var r Rules
	if proved, err := r.Authenticate("digest", nil, "127.0.0.1"); err != zk.ErrAuthFailed {
		t.Errorf("null proves %v, %v", proved, err)
	}
	for scheme, credential := range map[string][]byte{"digest": {}, "ip": nil} {
		if proved, err := r.Authenticate(scheme, credential, "127.0.0.1"); err != nil || len(proved) != 1 {
			t.Errorf("%s: proves %v, %v", scheme, proved, err)
		}
	}
}

func TestAllowFollowsTheList(t *testing.T) {
	bob := zk.Identity{Scheme: "digest", ID: Digest("bob:secret")}
	r := Rules{SuperDigest: Digest("super:admin")}
	super, err := r.Authenticate("digest", []byte("super:admin"), "")
	if err != nil || !slices.Contains(super, Super) {
		t.Fatalf("super user is %v, %v", super, err)
	}
	list := []zk.ACL{entry(zk.PermRead, "world", "anyone"), entry(zk.PermWrite, "digest", bob.ID), entry(zk.PermCreate, "ip", "10.0.0.0/8"), entry(zk.PermAll, "odd", "x")}
	for _, c := range []struct {
		name string
		perm zk.Perms
		ids  []zk.Identity
		want bool
	}{
		{"anyone reads", zk.PermRead, nil, true},
		{"anyone writes", zk.PermWrite, Connected("10.1.1.1"), false},
		{"bob writes", zk.PermWrite, []zk.Identity{bob}, true},
		{"address in the net creates", zk.PermCreate, Connected("10.200.3.4"), true},
		{"address outside creates", zk.PermCreate, Connected("11.0.0.1"), false},
		{"mapped address creates", zk.PermCreate, Connected("::ffff:10.1.1.1"), true},
		{"super administers", zk.PermAdmin, super, true},
		{"bob administers", zk.PermAdmin, []zk.Identity{bob}, false},
		{"identity of an unknown scheme", zk.PermAdmin, []zk.Identity{{Scheme: "odd", ID: "x"}}, false},
	} {
		if got := r.Allow(acl.New(list), c.perm, c.ids); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	if !r.Allow(acl.List{}, zk.PermAdmin, nil) {
		t.Error("an empty list keeps somebody out")
	}
}

// With skipACL no list is enforced, but lists that are set are checked and
// stored, so they apply once the setting is removed.
func TestSkipACLKeepsTheLists(t *testing.T) {
	r := Rules{SkipACL: true}
	list := []zk.ACL{entry(1, "digest", "bob:hash")}
	if got, err := r.Fix("/a", list, nil, 0); err != nil || !slices.Equal(got, list) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := r.Fix("/a", []zk.ACL{entry(1, "ip", "1.2.3")}, nil, 0); err != zk.ErrInvalidACL {
		t.Errorf("an address that is none: %v", err)
	}
	if !r.Allow(acl.New(list), zk.PermWrite, nil) {
		t.Error("a list keeps somebody out")
	}
}

func TestFixCompletesAndRefuses(t *testing.T) {
	var r Rules
	ids := append(Connected("127.0.0.1"), zk.Identity{Scheme: "digest", ID: "a:1"}, zk.Identity{Scheme: "digest", ID: "b:2"})
	got, err := r.Fix("/a", []zk.ACL{entry(1, "world", "anyone"), entry(31, "auth", "ignored"), entry(1, "world", "anyone")}, ids, 0)
	want := []zk.ACL{entry(1, "world", "anyone"), entry(31, "digest", "a:1"), entry(31, "digest", "b:2")}
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("%v, %v; want %v", got, err, want)
	}
	for name, list := range map[string][]zk.ACL{
		"null": nil, "empty": {}, "world of somebody": {entry(1, "world", "bob")}, "no scheme": {entry(1, "", "x")},
		"unknown scheme": {entry(1, "x", "y")}, "digest without colon": {entry(1, "digest", "bob")},
		"digest with two": {entry(1, "digest", "a:b:c")}, "bad address": {entry(1, "ip", "1.2.3")},
		"bits beyond": {entry(1, "ip", "1.2.3.4/33")}, "mapped": {entry(1, "ip", "::ffff:1.2.3.4")},
	} {
		if _, err := r.Fix("/a", list, ids, 0); err != zk.ErrInvalidACL {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := r.Fix("/a", []zk.ACL{entry(31, "auth", "")}, Connected("127.0.0.1"), 0); err != zk.ErrInvalidACL {
		t.Errorf("auth without an authenticated identity: %v", err)
	}
	if _, err := r.Fix("/a", []zk.ACL{entry(31, "ip", "fe80::/10")}, nil, 0); err != nil {
		t.Error(err)
	}
}

func TestUsersAreNamedAsApacheNamesThem(t *testing.T) {
	r := Rules{X509: true, SASL: true}
	for id, want := range map[zk.Identity]string{
		{Scheme: "ip", ID: "10.0.0.1"}: "10.0.0.1", {Scheme: "ip", ID: "::1"}: "0:0:0:0:0:0:0:1",
		{Scheme: "ip", ID: "fd00::a:0:12"}: "fd00:0:0:0:0:a:0:12", {Scheme: "ip", ID: "::ffff:10.0.0.1"}: "10.0.0.1",
		{Scheme: "ip", ID: "fe80::1%eth0"}: "fe80:0:0:0:0:0:0:1%eth0", {Scheme: "ip", ID: "pipe"}: "pipe",
		{Scheme: "digest", ID: "bob:hash"}: "bob", {Scheme: "x509", ID: "CN=a"}: "CN=a", {Scheme: "sasl", ID: "bob"}: "bob", Super: "",
	} {
		if got := r.User(id); got != want {
			t.Errorf("%v is %q, want %q", id, got, want)
		}
	}
}

func TestMaskHidesHashes(t *testing.T) {
	got := Mask([]zk.ACL{entry(1, "digest", "bob:xyz="), entry(1, "ip", "1.2.3.4")})
	if got[0].ID != "bob:x" || got[1].ID != "1.2.3.4" {
		t.Fatal(got)
	}
}

func FuzzACLIds(f *testing.F) {
	f.Add("1.2.3.4/8", "a:b")
	f.Fuzz(func(t *testing.T, ip, digest string) {
		if validIP(ip) {
			acl.New([]zk.ACL{entry(1, "ip", ip)}).Grants(Connected("127.0.0.1")[0])
		}
		validDigest(digest)
	})
}

// The hashes are those of openssl dgst -NAME -binary | base64.
func TestDigestsOfEveryHash(t *testing.T) {
	for name, want := range map[string]string{
		"":         "fyVmFCwVbTJYrznoSu1koqYEYF0=",
		"MD5":      "pasriMfeJxH/y5wk/opUWg==",
		"SHA-1":    "fyVmFCwVbTJYrznoSu1koqYEYF0=",
		"SHA-256":  "huAluaVu3uER4LIpielGv9Qqk5x3YVDr6I2R/mXf2wE=",
		"SHA-512":  "MON49O1q1UU4gzHRH8XFfdstQyTRtQRoDT+8dvk+qrZdXJegJxeoYDJfch4LeWUjXjSWIiqnKXpFYZi7tC1AZw==",
		"SHA3-256": "ukO6WgYOvbjGYGRnCevsZ2T9tQ3ynirMDLl7Q45X6Rc=",
	} {
		if !ValidHash(name) {
			t.Errorf("%s is not valid", name)
		}
		r := Rules{Hash: name}
		if got := r.Digest("bob:secret"); got != "bob:"+want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if ValidHash("CRC32") {
		t.Error("CRC32 is valid")
	}
}

// What Java's X500Principal takes, and what it does not (17.0).
func TestNamesOfCertificatesAreThoseThatJavaReads(t *testing.T) {
	for _, name := range []string{"", " CN=a", " OID.1.2=a", "1.02=a", "1.2.3 =a", "1.2.3=#130178", "2.999=a", "C=x", "CN =a", "CN=  ", `CN=""`,
		`CN="a" `, `CN="a"+O=b`, `CN="a,b"`, `CN="a<b"`, `CN="a\"b"`, `CN=\#a`, `CN=\E9\41`, "CN=a + O=b", "CN=a#b", "CN=a'b", "CN=a, O=b",
		"CN=a/b", "CN=a:b", `CN=a\ `, `CN=a\"b`, `CN=a\+b`, `CN=a\,b`, "CN=a\x00b", `CN=a\41`, `CN=a\<b`, "CN=a\nb", "CN=é", "DC=x", "DNQ=x",
		"DNQUALIFIER=x", "EMAIL=x", "GENERATION=x", "GIVENNAME=x", "INITIALS=x", "IP=x", "L=x", "O=x", "OU=x", "S=x", "SERIALNUMBER=x", "ST=x",
		"STREET=x", "SURNAME=x", "T=x", "UID=x", "emailaddress=a@b", "oid.1.2=a", "CN=", "CN=a;O=b", "cn=a", "CN=a+O=b", "CN=a=b", "CN=#0c0161"} {
		if !validName(name) {
			t.Errorf("%q is refused", name)
		}
	}
	for _, name := range []string{" ", "+CN=a", ",CN=a", "1.2.840.113549.1.9.1=#zz", "1.2.=a", "1.40=a", "1=a", "3.1=a", "C N=a", "CN= #ab", `CN="a"b`,
		`CN="a\q"`, `CN="a`, "CN=#0", "CN=#0c0161 ", "CN=#0c01", "CN=#", "CN=#ab", `CN=a"b`, "CN=a+", "CN=a+b=c", "CN=a,,O=b", "CN=a;", "CN=a>b",
		`CN=a\4`, `CN=a\`, `CN=a\q`, "GN=x", "OU=a,CN", "SN=x", "TITLE=x", "foo=bar", "CN=a,Org=b", "CN=a,", "=a", `CN=a,O="b`, "a", "E=x", "CN=a<b"} {
		if validName(name) {
			t.Errorf("%q is accepted", name)
		}
	}
}
