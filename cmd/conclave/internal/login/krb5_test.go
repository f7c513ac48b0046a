package login

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// As on a machine of a Hadoop cluster: what the library does not know is inside a realm.
const krb5 = `# of the cluster
[libdefaults]
	default_realm = EXAMPLE.COM
	forwardable = yes
	EXAMPLE.COM = {
		ticket_lifetime = 1h
	}
[realms]
	EXAMPLE.COM = {
		kdc = kdc.example.com ; the first one
		auth_to_local_names = {
			admin = root
		}
		v4_name_convert = {
			host = {
				rcmd = host
			}
		}
		v4_realm = OLD
		auth_to_local = RULE:[1:$1](^a{2}$)s/a/b/
		admin_server = admin.example.com
	}
	OTHER.COM = {
		kdc = other.example.com:89
	}
[domain_realm]
	.example.com = EXAMPLE.COM
`

func TestKerberosIsConfiguredAsMITReadsIt(t *testing.T) {
	path := written(t, "krb5.conf", krb5)
	c, err := loadKrb5(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Realms) != 2 || c.Realms[0].Realm != "EXAMPLE.COM" || c.Realms[0].KDC[0] != "kdc.example.com:88" ||
		c.Realms[0].AdminServer[0] != "admin.example.com" || c.Realms[1].KDC[0] != "other.example.com:89" {
		t.Errorf("the realms are %+v", c.Realms)
	}
	if c.ResolveRealm("h1.example.com") != "EXAMPLE.COM" {
		t.Error("the domain has no realm")
	}
	realm, err := (&Settings{Krb5Conf: path}).DefaultRealm()
	if realm != "EXAMPLE.COM" || err != nil {
		t.Errorf("the default realm is %q, %v", realm, err)
	}
}

// A server without SASL starts even with such a file. If the file is needed, the error
// says what is wrong with it.
func TestKerberosConfigurationThatCannotBeReadIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "krb5.conf")
	s := Settings{Krb5Conf: path}
	if realm, err := s.DefaultRealm(); realm != "" || err != nil {
		t.Errorf("without a file the default realm is %q, %v", realm, err)
	}
	failed := 0
	tried := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		realm, err := s.DefaultRealm()
		if err == nil {
			return
		}
		failed++
		if realm != "" || !strings.Contains(err.Error(), path) {
			t.Errorf("%q, %v of %s", realm, err, text)
		}
	}
	for at := range krb5 {
		tried(krb5[:at])
		tried(krb5[:at] + krb5[at+1:])
		tried(krb5[:at] + []string{"\n", "{", "}", "=", "[", "]", "#", "v4_"}[at%8] + krb5[at:])
	}
	if failed == 0 {
		t.Error("nothing is wrong with any of the files")
	}
}

// The file that RHEL and Fedora install; its realms are in a directory next to it.
const krb5OfRHEL = `# To opt out of the system crypto-policies configuration of krb5, remove the
# symlink at /etc/krb5.conf.d/crypto-policies which will not be recreated.
includedir DIR/

[logging]
    default = FILE:/var/log/krb5libs.log
    kdc = FILE:/var/log/krb5kdc.log

[libdefaults]
    dns_lookup_realm = false
    ticket_lifetime = 24h
    renew_lifetime = 7d
    forwardable = on
    rdns = false
    pkinit_anchors = FILE:/etc/pki/tls/certs/ca-bundle.crt
    spake_preauth_groups = edwards25519
    dns_canonicalize_hostname = fallback
    preferred_preauth_types = 17, 16
    default_tkt_enctypes = aes256-cts, aes128-cts
    qualify_shortname = ""
    default_ccache_name = KEYRING:persistent:%{uid}

[realms]
    EXAMPLE.COM = {
        kdc = kdc1.example.com
        pkinit_pool = FILE:/{}
    }

[domain_realm]
# .example.com = EXAMPLE.COM
`

// TestKerberosOfRHELIsRead: it has values that the library does not know, and
// includes a directory, of which only the files that MIT's library accepts are
// read.
func TestKerberosOfRHELIsRead(t *testing.T) {
	dir, other := t.TempDir(), written(t, "other.conf", "[libdefaults]\n noaddresses = nil\n[domain_realm]\n .other.com = OTHER.COM\n")
	for name, text := range map[string]string{
		"crypto-policies": "[libdefaults]\npermitted_enctypes = aes256-cts-hmac-sha1-96 aes256-cts-hmac-sha384-192\n",
		"realm_1":         "[libdefaults]\n default_realm = EXAMPLE.COM\n[realms]\n EXAMPLE.COM = {\n  kdc = kdc2.example.com\n }\n",
		"site.conf":       "include " + other + "\n[realms]\n OTHER.COM = {\n  kdc = kdc.other.com\n }\n",
		"localauth":       "[plugins]\n localauth = {\n  module = sssd:/usr/lib64/sssd/modules/sssd_krb5_localauth_plugin.so\n }\n",
		".hidden.conf":    "no configuration", "a.rpmsave": "no configuration",
	} {
		write(t, dir, name, text)
	}
	if err := os.Mkdir(filepath.Join(dir, "directory"), 0o700); err != nil {
		t.Fatal(err)
	}
	c, err := loadKrb5(written(t, "krb5.conf", strings.Replace(krb5OfRHEL, "DIR", dir, 1)))
	if err != nil {
		t.Fatal(err)
	}
	if c.LibDefaults.DefaultRealm != "EXAMPLE.COM" || !c.LibDefaults.Forwardable || c.LibDefaults.NoAddresses || c.LibDefaults.RenewLifetime != 7*24*time.Hour ||
		!slices.Equal(c.LibDefaults.DefaultTktEnctypeIDs, []int32{18, 17}) || !slices.Equal(c.LibDefaults.PreferredPreauthTypes, []int{17, 16}) {
		t.Errorf("the defaults are %+v", c.LibDefaults)
	}
	if len(c.Realms) != 2 || !slices.Equal(c.Realms[0].KDC, []string{"kdc2.example.com:88", "kdc1.example.com:88"}) ||
		!slices.Equal(c.Realms[1].KDC, []string{"kdc.other.com:88"}) {
		t.Errorf("the realms are %+v", c.Realms)
	}
	if c.ResolveRealm("h.other.com") != "OTHER.COM" {
		t.Error("the included file does not count")
	}
}

// TestMistakesOfKerberosAreToldWithTheirLine: with the file and line in which they are.
func TestMistakesOfKerberosAreToldWithTheirLine(t *testing.T) {
	itself := filepath.Join(t.TempDir(), "krb5.conf")
	deep := written(t, "deep.conf", "[libdefaults]\n\nforwardable = perhaps\n")
	for text, want := range map[string]string{
		"[libdefaults]\ndefault_realm\n":          "krb5.conf:2: default_realm: want KEY = VALUE",
		"[libdefaults]\nproxiable = perhaps\n":    "krb5.conf:2: proxiable = perhaps: want true or false",
		"\ninclude " + deep:                       deep + ":3: forwardable = perhaps: want true or false",
		"include " + itself:                       itself + ":1: include " + itself + ": it is already included",
		"include /none/such":                      "krb5.conf:1: include /none/such: ",
		"\nincludedir /none/such":                 "krb5.conf:2: includedir /none/such: ",
		"include other.conf":                      "krb5.conf:1: include other.conf: want a path that begins with /",
		"[realms]\n A = {\n kdc = a\n":            "krb5.conf:2: A = {: the block has no end, }",
		"[realms]\n A = {\n kdc\n}\n":             "krb5.conf:3: kdc: want KEY = VALUE",
		"[realms]\n }\n":                          "krb5.conf:2: } ends no block",
		"[realms]\n {\n}\n":                       "krb5.conf:2: {: want NAME = {",
		"[realms]\n = {\n}\n":                     "krb5.conf:2: = {: want NAME = {",
		"[realms]\n A = { kdc = a }\n":            "krb5.conf:2: A = { kdc = a }: want NAME = {",
		"[libdefaults\n":                          "krb5.conf:1: [libdefaults: want [SECTION]",
		"[libdefaults]\nticket_lifetime = long\n": "ticket_lifetime",
	} {
		write(t, filepath.Dir(itself), "krb5.conf", text)
		realm, err := (&Settings{Krb5Conf: itself}).DefaultRealm()
		if err == nil || realm != "" || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), ".conf") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
