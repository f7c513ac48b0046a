//go:build linux

package servers

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/conclave-project/conclave/internal/childtest"
)

// KDC is MIT's key distribution center of Kerberos, with a realm of its own. It needs
// Debian's krb5-kdc, krb5-admin-server and krb5-user.
type KDC struct {
	Realm    string
	Krb5Conf string // the configuration file for clients: KRB5_CONFIG, java.security.krb5.conf

	dir     string
	command *exec.Cmd
	ended   chan struct{}
}

// StartKDC starts a KDC on a free port of loopback, with its files in dir, which must be
// empty. Close ends it.
func StartKDC(dir string) (*KDC, error) {
	port, err := childtest.FreePort()
	if err != nil {
		return nil, err
	}
	k := &KDC{Realm: "EXAMPLE.COM", Krb5Conf: filepath.Join(dir, "krb5.conf"), dir: dir, ended: make(chan struct{})}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	for name, text := range map[string]string{
		// TCP only, so nothing is sent twice. Names are used as written.
		"krb5.conf": fmt.Sprintf(`[libdefaults]
 default_realm = %[1]s
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
[realms]
 %[1]s = {
  kdc = %[2]s
 }
`, k.Realm, address),
		"kdc.conf": fmt.Sprintf(`[kdcdefaults]
 kdc_listen = ""
 kdc_tcp_listen = %[2]s
[realms]
 %[1]s = {
  database_name = %[3]s/principal
  key_stash_file = %[3]s/stash
  acl_file = %[3]s/acl
  supported_enctypes = aes256-cts-hmac-sha1-96:normal aes128-cts-hmac-sha1-96:normal
 }
[logging]
 kdc = FILE:%[3]s/kdc.log
`, k.Realm, address, dir),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	if err := k.tool("kdb5_util", "create", "-s", "-P", "master", "-r", k.Realm); err != nil {
		return nil, err
	}
	return k, k.start(address)
}

// start runs the KDC until Close, and waits until it answers.
func (k *KDC) start(address string) error {
	k.command = exec.Command(program("krb5kdc"), "-n")
	k.command.Env = k.environment()
	k.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := k.command.Start(); err != nil {
		return fmt.Errorf("servers: start krb5kdc (Debian: krb5-kdc): %w", err)
	}
	go func() {
		_ = k.command.Wait()
		close(k.ended)
	}()
	for limit := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", address)
		if err == nil {
			return c.Close()
		}
		select {
		case <-k.ended:
			return fmt.Errorf("servers: krb5kdc has ended: %v", k.command.ProcessState)
		default:
		}
		if time.Now().After(limit) {
			k.Close()
			return fmt.Errorf("servers: krb5kdc does not answer: %w", err)
		}
	}
}

// Close ends the KDC.
func (k *KDC) Close() {
	_ = k.command.Process.Kill()
	<-k.ended
}

// Keytab creates principals such as zookeeper/host, and writes a file with their keys.
func (k *KDC) Keytab(name string, principals ...string) (path string, err error) {
	path = filepath.Join(k.dir, name)
	for _, p := range principals {
		if err := k.tool("kadmin.local", "-q", "addprinc -randkey "+p); err != nil {
			return "", err
		}
		if err := k.tool("kadmin.local", "-q", "ktadd -k "+path+" "+p); err != nil {
			return "", err
		}
	}
	return path, nil
}

func (k *KDC) environment() []string {
	return append(os.Environ(), "KRB5_CONFIG="+k.Krb5Conf, "KRB5_KDC_PROFILE="+filepath.Join(k.dir, "kdc.conf"))
}

func (k *KDC) tool(name string, args ...string) error {
	c := exec.Command(program(name), args...)
	c.Env = k.environment()
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("servers: %s %q (Debian: krb5-admin-server): %w\n%s", name, args, err, out)
	}
	return nil
}

// program finds a program that may not be in an ordinary user's PATH.
func program(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	return filepath.Join("/usr/sbin", name)
}
