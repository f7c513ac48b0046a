package login

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/sasl"
)

// written writes a file and returns its name.
func written(t testing.TB, name, text string) string {
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFilesAreReadAsJavaReadsThem(t *testing.T) {
	sections, err := parse("jaas.conf", []byte(`
/* two sections,
   one for each side */
Server {
	org.apache.zookeeper.server.auth.DigestLoginModule required // the usual
	user_super="adminsecret"
	'user_b"b'="a \"quoted\" text; with }"
	debug=true;
};
Client{com.sun.security.auth.module.Krb5LoginModule REQUIRED useKeyTab=true keyTab="/etc/zk.keytab" principal="zk/h@R";};
`))
	if err != nil {
		t.Fatal(err)
	}
	s, c := sections["Server"], sections["Client"]
	if !s.digest() || s.kerberos() || !c.kerberos() || c.digest() || !s.on("debug") || len(sections) != 2 {
		t.Error(sections)
	}
	for option, want := range map[string]string{"user_super": "adminsecret", `user_b"b`: `a "quoted" text; with }`} {
		if got := s.options[option]; got != want {
			t.Errorf("%s is %q", option, got)
		}
	}
	if c.options["keyTab"] != "/etc/zk.keytab" || c.options["principal"] != "zk/h@R" {
		t.Error(c.options)
	}
	f := &File{sections: map[string]module{"Server": s, "Client": c, "Any": {class: c.class, options: map[string]string{"principal": "*"}}}}
	for section, want := range map[string]string{"Client": "zk/h@R", "Server": "", "Any": "", "None": ""} {
		if got := f.Principal(section); got != want {
			t.Errorf("the principal of %s is %q", section, got)
		}
	}
	for _, empty := range []string{"", " \n", "// nothing\n", "/**/"} {
		if s, err := parse("", []byte(empty)); err != nil || len(s) != 0 {
			t.Errorf("%q: %v, %v", empty, s, err)
		}
	}
}

func TestWhatIsWrongWithAFileIsSaidWithItsLine(t *testing.T) {
	for text, want := range map[string]string{
		"Server":                                     `jaas.conf:1: want {`,
		"Server {\n a.B required x=1;\n}":            `jaas.conf:3: want ;`,
		"Server {\n a.B x=1;};":                      `jaas.conf:2: section Server: want a class and one of required`,
		"S { a.B required x=;};":                     `jaas.conf:1: section S: an option has no value`,
		"S { a.B required x \n y=1;};":               `jaas.conf:2: want =`,
		"S { a.B required x=\"1;};":                  `jaas.conf:1: a text has no end`,
		"S { a.B required x=1":                       `jaas.conf:1: section S has no end`,
		"S { a.B required x=1; a.C required; };":     `one module is read`,
		"S { a.B required; };\nS { a.B required; };": `jaas.conf:2: section S is there twice`,
		"S { a.B required x=\"${user.home}/k\"; };":  `write the value`,
		"/* open": `a comment has no end`,
	} {
		if _, err := parse("jaas.conf", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// A file that is nearly right may have a password where something else is expected.
// Errors about it end up in a journal, so they must not contain it.
func TestPasswordsOfFilesThatAreWrongAreNotTold(t *testing.T) {
	const password = "CANARY"
	tried := func(text string) {
		sections, err := parse("jaas.conf", []byte(text))
		if err == nil {
			f := &File{settings: Settings{File: "jaas.conf"}, sections: sections}
			_, server := f.Server("Server", Clients)
			_, client := f.Client("Server", Peers)
			err = errors.Join(server, client)
		}
		for at := range len(password) - 2 {
			if err != nil && strings.Contains(err.Error(), password[at:at+3]) {
				t.Errorf("of %q is told: %v", text, err)
				return
			}
		}
	}
	for _, good := range []string{
		"Server { a.DigestLoginModule required user_bob=\"" + password + "\" user_al=" + password + "; };",
		"Server {\n a.DigestLoginModule required\n username=bob\n password='" + password + "';\n};\nClient { a.B required; };",
	} {
		tried(good)
		for at := range good {
			tried(good[:at])
			tried(good[:at] + good[at+1:])
			for _, mark := range []string{" ", "\n", "{", "}", ";", "=", "\"", "'", "${", "//", "};", "}; x {", "x=", "\\"} {
				tried(good[:at] + mark + good[at:])
			}
		}
		parts := strings.Fields(good)
		for at := range parts {
			tried(strings.Join(slices.Delete(slices.Clone(parts), at, at+1), " "))
		}
	}
}

const digests = `
Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_super="old" user_bob="secret"; };
QuorumServer { org.apache.zookeeper.server.auth.DigestLoginModule required user_peer="between"; };
QuorumLearner { org.apache.zookeeper.server.auth.DigestLoginModule required username="peer" password="between"; };
Nobody { org.apache.zookeeper.server.auth.DigestLoginModule required; };
Other { com.example.LoginModule required; };
`

// meet lets both sides talk until one of them ends it.
func meet(s sasl.Server, c sasl.Client) error {
	token, done := []byte{}, false
	if c.First() {
		var err error
		if token, _, err = c.Next(nil); err != nil {
			return err
		}
	}
	for range 6 {
		answer, served, err := s.Next(token)
		if err != nil || served && done {
			return err
		}
		if token, done, err = c.Next(answer); err != nil || served && done {
			return err
		}
	}
	return os.ErrDeadlineExceeded
}

func TestPasswordsComeFromTheFile(t *testing.T) {
	f, err := Open(Settings{File: written(t, "jaas.conf", digests), SuperPassword: "new"})
	if err != nil {
		t.Fatal(err)
	}
	begin, err := f.Server("Server", Clients)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		user, password string
		good           bool
	}{{"bob", "secret", true}, {"super", "new", true}, {"super", "old", false}, {"peer", "between", false}} {
		if err := meet(begin(), sasl.DigestClient(Clients.digest, c.user, c.password)); (err == nil) != c.good {
			t.Errorf("%s with %s: %v", c.user, c.password, err)
		}
	}
	peers, err := f.Server("QuorumServer", Peers)
	if err != nil {
		t.Fatal(err)
	}
	prove, err := f.Client("QuorumLearner", Peers)
	if err != nil {
		t.Fatal(err)
	}
	c, err := prove(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := meet(peers(), c); err != nil {
		t.Error(err)
	}
}

func TestSectionsThatCannotBeServedAreRefused(t *testing.T) {
	path := written(t, "jaas.conf", digests+`
Ticket { com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="/none" principal="zk/h@R"; };
Cache { com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true principal="zk/h@R"; };
`)
	f, err := Open(Settings{File: path, FIPS: true})
	if err != nil {
		t.Fatal(err)
	}
	for section, want := range map[string]string{
		"Server": "set fips-mode=false", "Missing": "has no section Missing", "Other": "com.example.LoginModule is not supported",
	} {
		if _, err := f.Server(section, Clients); err == nil {
			t.Errorf("%s is served", section)
		} else if !strings.Contains(err.Error()+" set fips-mode=false", want) {
			t.Errorf("%s: %v", section, err)
		}
	}
	f.settings.FIPS = false
	for section, want := range map[string]string{"Nobody": "no users", "Ticket": "/none", "Cache": "useKeyTab=true"} {
		if _, err := f.Server(section, Clients); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", section, err)
		}
	}
	if _, err := f.Client("Server", Peers); err == nil || !strings.Contains(err.Error(), "username=") {
		t.Error(err)
	}
	if _, err := Open(Settings{File: path + "x"}); err == nil {
		t.Error("no file, and no error")
	}
}

func FuzzFiles(f *testing.F) {
	f.Add([]byte(digests))
	f.Fuzz(func(_ *testing.T, text []byte) { _, _ = parse("jaas.conf", text) })
}

// TestSectionsOnThePagesAreRead: blocks that users copy from the documentation must parse.
func TestSectionsOnThePagesAreRead(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]int{}
	for _, block := range regexp.MustCompile("(?s)```jaas\n(.*?)```").FindAllSubmatch(page, -1) {
		read, err := parse("jaas.conf", block[1])
		if err != nil {
			t.Errorf("%v\n%s", err, block[1])
		}
		for name := range read {
			sections[name]++
		}
	}
	if sections["Server"] != 2 || sections["QuorumServer"] != 1 || sections["QuorumLearner"] != 1 {
		t.Errorf("%v", sections)
	}
}
