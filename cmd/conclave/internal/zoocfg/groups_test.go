package zoocfg

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/cmd/conclave/internal/secure"
	"github.com/conclave-project/conclave/internal/auth"
)

const withGroups = "secureClientPort=2281\nauthProvider.x509=" + groupProvider + "\n"

func TestGroupsAreReadByTheirKeys(t *testing.T) {
	c, err := read(t, withGroups+"ssl.authProvider=x509\nX509ZNodeGroupAclProvider.superUserId=urn:a, urn:b\nX509ZNodeGroupAclProvider.crossDomainAccessDomainName=ops,,sre\n"+
		"X509ZNodeGroupAclProvider.setX509ClientIdAsAcl=true\nX509ZNodeGroupAclProvider.allowedClientIdAsAclDomains=d\nX509ZNodeGroupAclProvider.openReadAccessPathPrefix=/p,/q\n"+
		"X509ZNodeGroupAclProvider.storeAuthedClientId=true\nssl.x509.clientCertIdType=SAN\nssl.x509.clientCertIdSanMatchType=6\nssl.x509.clientCertIdSanMatchRegex=^urn:\n"+
		"ssl.x509.clientCertIdSanExtractRegex=urn:(.*)\nssl.x509.clientCertIdSanExtractMatcherGroupIndex=1")
	want := auth.Groups{On: true, Supers: []string{"urn:a", "urn:b"}, CrossDomains: []string{"ops", "sre"}, OwnACL: true, OwnACLOf: []string{"d"}, OpenRead: []string{"/p", "/q"}, KeepID: true}
	if err != nil || len(c.Remarks) > 0 || !reflect.DeepEqual(c.Server.Auth.Groups, want) {
		t.Errorf("%+v, %q, %v", c.Server.Auth.Groups, c.Remarks, err)
	}
	if id := c.ClientTLS.Settings.ClientID; id != (secure.ClientID{Type: "SAN", Kind: 6, Match: "^urn:", Extract: "urn:(.*)", Group: 1}) {
		t.Errorf("%+v", id)
	}
	c, err = read(t, withGroups+"X509ZNodeGroupAclProvider.superUserId=CN=a\\\\,b,O=x, CN=c,CN=d,OU=y,O=x")
	if want := []string{`CN=a\,b,O=x`, "CN=c", "CN=d,OU=y,O=x"}; err != nil || !slices.Equal(c.Server.Auth.Groups.Supers, want) {
		t.Errorf("%q, %v", c.Server.Auth.Groups.Supers, err)
	}
	c, err = read(t, withGroups+"X509ZNodeGroupAclProvider.dedicatedDomain=shop\nX509ZNodeGroupAclProvider.enforceDedicatedDomain=false")
	if want := (auth.Groups{On: true, Dedicated: "shop", Lenient: true}); err != nil || len(c.Remarks) > 0 || !reflect.DeepEqual(c.Server.Auth.Groups, want) {
		t.Errorf("%+v, %q, %v", c.Server.Auth.Groups, c.Remarks, err)
	}
}

func TestGroupsThatHaveNoEffectAreRemarked(t *testing.T) {
	const x = "X509ZNodeGroupAclProvider."
	for lines, want := range map[string]string{
		x + "superUserId=a":                  "zoo.cfg:3: " + x + "superUserId: has no effect: no authProvider names X509ZNodeGroupAclProvider",
		"authProvider.x509=" + groupProvider: "zoo.cfg:3: authProvider.x509: has no effect: no port for clients speaks TLS",
		withGroups + "ssl.clientAuth=none":   "zoo.cfg:4: authProvider.x509: has no effect: nobody is asked for a certificate, ssl.clientAuth is none",
		withGroups + "X509AuthenticationProvider.superUser=CN=a": "zoo.cfg:5: X509AuthenticationProvider.superUser: has no effect: " +
			x + "superUserId takes its place beside that provider",
		withGroups + x + "enforceDedicatedDomain=false":                          "zoo.cfg:5: " + x + "enforceDedicatedDomain: has no effect: " + x + "dedicatedDomain is not set",
		withGroups + x + "openReadAccessPathPrefix=/p":                           "zoo.cfg:5: " + x + "openReadAccessPathPrefix: has no effect: no list is set by " + x + "setX509ClientIdAsAcl",
		withGroups + x + "dedicatedDomain=d\n" + x + "setX509ClientIdAsAcl=true": "zoo.cfg:6: " + x + "setX509ClientIdAsAcl: has no effect: " + x + "dedicatedDomain is set",
		withGroups + "ssl.x509.clientCertIdSanMatchType=6":                       "zoo.cfg:5: ssl.x509.clientCertIdSanMatchType: has no effect: ssl.x509.clientCertIdType is not SAN",
		"ssl.x509.clientCertIdType=SAN":                                          "zoo.cfg:3: ssl.x509.clientCertIdType: has no effect: without secureClientPort or client.portUnification no port for clients speaks TLS",
		withGroups + "authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider\n" + x + "superUserId=a": "zoo.cfg:5: authProvider.x509: stands twice, line 4 is not used\n" +
			"zoo.cfg:6: " + x + "superUserId: has no effect: no authProvider names X509ZNodeGroupAclProvider",
	} {
		c, err := read(t, lines)
		if got := strings.Join(c.Remarks, "\n"); err != nil || got != want {
			t.Errorf("%s:\n got %s, %v\nwant %s", lines, got, err, want)
		}
	}
}
