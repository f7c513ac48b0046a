//go:build linux && interop

package interop

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/test/servers"
)

// providerVersion is the version of the security provider with which Java reads BCFKS
// stores.
const providerVersion = "2.0.0"

// provider returns the jar of the security provider, which Maven downloads the first time.
func provider(t *testing.T) string {
	t.Helper()
	cache, err := servers.CacheDir()
	must(t, err)
	jar := filepath.Join(cache, "bc-fips-"+providerVersion+".jar")
	if _, err := os.Stat(jar); err == nil {
		return jar
	}
	out, err := exec.CommandContext(t.Context(), "mvn", "-q", "-B", "dependency:copy", "-Dartifact=org.bouncycastle:bc-fips:"+providerVersion,
		"-DoutputDirectory="+cache).CombinedOutput()
	if err != nil {
		t.Fatalf("mvn: %v\n%s", err, out)
	}
	return jar
}

// A server refuses a BCFKS store and prints a command that converts it; a server starts
// with the result of that command.
func TestStoreOfBCFKSIsConverted(t *testing.T) {
	const password = "secret of 112 bits"
	binary, err := servers.Binary(t.Context())
	must(t, err)
	jar, dir := provider(t), t.TempDir()
	keytool := func(args ...string) {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "keytool", args...).CombinedOutput()
		if err != nil {
			t.Fatalf("keytool %v: %v\n%s", args, err, out)
		}
	}
	store := filepath.Join(dir, "server.bcfks")
	keytool("-genkeypair", "-alias", "me", "-keyalg", "EC", "-groupname", "secp256r1", "-dname", "CN=localhost", "-keystore", store, "-storetype", "BCFKS",
		"-storepass", password, "-keypass", password, "-providerclass", "org.bouncycastle.jcajce.provider.BouncyCastleFipsProvider", "-providerpath", jar)
	check := func(store string) (string, error) {
		file := filepath.Join(dir, "zoo.cfg")
		must(t, os.WriteFile(file, []byte("dataDir="+dir+"/data\nsecureClientPort=2281\nssl.clientAuth=none\nssl.keyStore.location="+store+"\nssl.keyStore.password="+password+"\n"), 0o600))
		out, err := exec.CommandContext(t.Context(), binary, "serve", "--check", "--config", file).CombinedOutput()
		return string(out), err
	}
	said, err := check(store)
	_, line, refused := strings.Cut(said, "convert it with keytool ")
	if err == nil || !refused {
		t.Fatalf("a store of BCFKS: %v, %s", err, said)
	}
	line, _, _ = strings.Cut(line, ", and name")
	args := strings.Fields(strings.Replace(line, "bc-fips.jar", jar, 1))
	keytool(append(args, "-srcstorepass", password, "-deststorepass", password)...)
	if said, err := check(filepath.Join(dir, "server.p12")); err != nil || !strings.Contains(said, ":2281: TLS") {
		t.Errorf("what is made of it: %v, %s", err, said)
	}
}
