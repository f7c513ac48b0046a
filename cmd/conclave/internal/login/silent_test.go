package login

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/keytab"

	"github.com/conclave-project/conclave/internal/awaittest"
)

// TestSilentKDCIsWaitedForNoLongerThanWanted: an attempt to connect ends in time, and the
// next one begins while the single leftover request is still running.
func TestSilentKDCIsWaitedForNoLongerThanWanted(t *testing.T) {
	within, dir, kdc := awaittest.Within(t), t.TempDir(), silent(t)
	keys := keytab.New()
	if err := keys.AddEntry("app/host", "REALM", "secret", time.Now(), 1, 18); err != nil {
		t.Fatal(err)
	}
	bytes, err := keys.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	path := write(t, dir, "app.keytab", string(bytes))
	conf := write(t, dir, "krb5.conf", fmt.Sprintf("[libdefaults]\n default_realm = REALM\n dns_lookup_kdc = false\n"+
		" udp_preference_limit = 1\n[realms]\n REALM = {\n  kdc = %s\n }\n", kdc.Addr()))
	jaas := write(t, dir, "jaas.conf", fmt.Sprintf("Client {\n com.sun.security.auth.module.Krb5LoginModule required\n"+
		" useKeyTab=true\n keyTab=%q\n useTicketCache=false\n principal=\"app/host@REALM\";\n};\n", path))
	f, err := Open(Settings{File: jaas, Krb5Conf: conf})
	if err != nil {
		t.Fatal(err)
	}
	begin, err := f.Client("Client", Clients)
	if err != nil {
		t.Fatal(err)
	}
	attempt := func(ctx context.Context) <-chan error {
		ended := make(chan error, 1)
		go func() {
			side, err := begin(ctx, "zookeeper/h1")
			if err == nil {
				_, _, err = side.Next(nil)
			}
			ended <- err
		}()
		return ended
	}
	first, end := context.WithCancel(within)
	ended := attempt(first)
	asked, err := kdc.Accept() // it accepts, and answers nothing
	if err != nil {
		t.Fatal(err)
	}
	defer asked.Close() // kept until then: the garbage collector closes unreferenced connections
	second, endSecond := context.WithCancel(within)
	next := attempt(second)
	end()
	endSecond()
	for _, ended := range []<-chan error{ended, next} {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("an attempt that has ended returned %v", err)
		}
	}
}

func silent(t *testing.T) net.Listener {
	t.Helper()
	kdc, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = kdc.Close() })
	return kdc
}

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
