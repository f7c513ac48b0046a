package zoocfg

import (
	"bufio"
	flags "flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	_ "github.com/conclave-project/conclave/internal/tracetest" // has the flag -rewrite
)

// apacheName is one setting of Apache's, from testdata/apache.txt.
type apacheName struct{ kind, name, versions, where string }

func apacheNames(t *testing.T) []apacheName {
	t.Helper()
	file, err := os.Open("testdata/apache.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var all []apacheName
	for lines := bufio.NewScanner(file); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) == 0 || f[0] == "#" {
			continue
		}
		if len(f) != 4 {
			t.Fatalf("testdata/apache.txt: %q", lines.Text())
		}
		all = append(all, apacheName{f[0], f[1], f[2], f[3]})
	}
	if len(all) < 300 {
		t.Fatalf("testdata/apache.txt has %d names", len(all))
	}
	return all
}

// TestEveryNameOfApacheHasARow: each name in Apache's sources, of 3.9.5 or 3.10, has an
// effect that is described, or a reason why it has none.
func TestEveryNameOfApacheHasARow(t *testing.T) {
	r := &reader{out: &Config{}}
	r.table, r.families = r.keys(), r.keyFamilies()
	environment := variables()
	for _, a := range apacheNames(t) {
		row, known := environment[a.name]
		if a.kind != "environment" {
			name, prefixed := strings.CutPrefix(a.name, "zookeeper.")
			if lineKey(name) {
				continue
			}
			if row, known = r.lookUp(name); known && (a.kind == "property" && !prefixed) != row.javaOnly && !alsoPrefixed[name] {
				t.Errorf("%s: Apache takes it as a Java property alone: %v, in the table: %v", a.name, !row.javaOnly, row.javaOnly)
			}
		}
		if !known {
			t.Errorf("%s (%s of %s, in %s) has no row", a.name, a.kind, a.versions, a.where)
		}
		if row.means == works && row.about == "" || row.means != works && row.without == "" {
			t.Errorf("%s: its row is silent", a.name)
		}
	}
}

// alsoPrefixed are properties that Apache accepts with and without the prefix zookeeper.
var alsoPrefixed = map[string]bool{"fsync.warningthresholdms": true}

// TestNothingThatIsGivenIsSilent: each name, with a value that asks for something, has an
// effect, a note, a remark or an error.
func TestNothingThatIsGivenIsSilent(t *testing.T) {
	r := &reader{out: &Config{}}
	r.table, r.families = r.keys(), r.keyFamilies()
	for _, a := range apacheNames(t) {
		name := strings.TrimPrefix(a.name, "zookeeper.")
		row, _ := r.lookUp(name)
		if a.kind == "environment" || lineKey(name) || row.means == works {
			continue
		}
		said := false
		for _, value := range []string{"true", "false", "7", "/x", "0.5"} {
			if said {
				break
			}
			c, err := read(t, "server.1=a:1:2", "server.2=b:1:2;2181", "initLimit=5", "syncLimit=5", name+"="+value)
			about := func(text string) bool { return strings.Contains(text, ": "+name+": ") }
			said = err != nil && strings.Contains(err.Error(), name+": ") && strings.Contains(err.Error(), "is refused") ||
				slices.ContainsFunc(c.Notes, about) || slices.ContainsFunc(c.Remarks, about)
		}
		if !said {
			t.Errorf("%s is accepted and nothing is said", name)
		}
	}
}

// TestConfigurationPageIsThatOfTheTable compares the tables of docs/configuration.md with
// those of the code; -rewrite updates them. The text between the tables is written by hand.
func TestConfigurationPageIsThatOfTheTable(t *testing.T) {
	const page = "../../../../docs/configuration.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	tables := pageTables()
	var out strings.Builder
	inside := ""
	for line := range strings.Lines(string(text)) {
		name, begins := strings.CutPrefix(strings.TrimSpace(line), "<!-- table ")
		name = strings.TrimSuffix(name, " -->")
		switch {
		case begins:
			out.WriteString(line + tables[name])
			if tables[name] == "" {
				t.Errorf("%s has a table %s, the code has none", page, name)
			}
			delete(tables, name)
			inside = name
		case strings.TrimSpace(line) == "<!-- end -->":
			out.WriteString(line)
			inside = ""
		case inside == "":
			out.WriteString(line)
		}
	}
	for name := range tables {
		t.Errorf("%s has no table %s", page, name)
	}
	switch {
	case out.String() == string(text):
	case flags.Lookup("rewrite").Value.String() == "true":
		if err := os.WriteFile(page, []byte(out.String()), 0o644); err != nil {
			t.Error(err)
		}
	default:
		t.Errorf("%s is not that of the table: go test ./internal/zoocfg -rewrite writes it again", page)
	}
}

// pageTables are the tables of the page, by name.
func pageTables() map[string]string {
	r := &reader{out: &Config{}}
	parts := append(r.parts(), part{"environment", variables()}, part{"families", map[string]setting{}})
	for _, f := range r.keyFamilies() {
		parts[len(parts)-1].rows[f.prefix+"*"] = f.setting
	}
	all, refusals, idles := map[string]string{}, map[string]setting{}, map[string]setting{}
	for _, p := range parts {
		have := map[string]setting{}
		for name, s := range p.rows {
			switch s.means {
			case works:
				have[name] = s
			case notServed:
				refusals[name] = s
			default:
				idles[name] = s
			}
		}
		if p.name == "families" {
			continue // those that work are explained by hand
		}
		if len(have) > 0 {
			all[p.name] = table("| key | default | what it does |\n|---|---|---|\n", have, func(names string, s setting) string {
				about := s.about
				if s.inEnsemble {
					about = "in an ensemble: " + about
				}
				return fmt.Sprintf("| %s | %s | %s |\n", names, s.initial, about)
			})
		}
	}
	all["refused"] = table("| key | accepted | why |\n|---|---|---|\n", refusals, func(names string, s setting) string {
		why := s.without
		if s.inEnsemble {
			why = "in an ensemble: " + why
		}
		if !s.refuse {
			why += "; the server starts, and says so"
		}
		return fmt.Sprintf("| %s | %s | %s |\n", names, served(s.served), why)
	})
	all["idle"] = table("| key | why it has no meaning |\n|---|---|\n", idles, func(names string, s setting) string {
		return fmt.Sprintf("| %s | %s |\n", names, s.without)
	})
	return all
}

// served returns the accepted values; for Java's classes, only the last part.
func served(values string) string {
	if values == "" {
		return "none"
	}
	var all []string
	for v := range strings.SplitSeq(values, "|") {
		all = append(all, "`"+v[strings.LastIndexByte(v, '.')+1:]+"`")
	}
	return strings.Join(all, " ")
}

// table writes the rows sorted by name. Names with the same text share a row.
func table(head string, rows map[string]setting, write func(names string, s setting) string) string {
	names := map[string][]string{}
	var order []string
	for _, name := range slices.SortedFunc(maps.Keys(rows), func(a, b string) int {
		return strings.Compare(strings.ToLower(a), strings.ToLower(b))
	}) {
		said := write("", rows[name])
		if names[said] == nil {
			order = append(order, name)
		}
		names[said] = append(names[said], "`"+name+"`")
	}
	text := head
	for _, name := range order {
		text += write(strings.Join(names[write("", rows[name])], " "), rows[name])
	}
	return text
}

func TestEnvironmentIsWhatApachesScriptsWouldGiveJava(t *testing.T) {
	environment := map[string]string{
		"SERVER_JVMFLAGS":                "-Xmx1000m -Dzookeeper.snapCount=5 -Djute.maxbuffer=0x200000 -Dzookeeper.commitLogCount=7",
		"JVMFLAGS":                       "-Dzookeeper.snapCount=6 -DsnapCont=9 -Dlogback.configurationFile=/x -Dzookeeper.preAllocSize=9",
		"ZOO_DATADIR_AUTOCREATE_DISABLE": "1",
	}
	file, err := Parse("zoo.cfg", []byte("dataDir=/data\nclientPort=2181\npreAllocSize=64\n"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := Read(append(Environment(func(name string) string { return environment[name] }), file...), disk(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	s := c.Server
	if s.SnapCount != 6 || s.FrameBytesMax != 1<<21 || s.HistoryMax != 7 || s.PreallocBytes != 64<<10 || !s.NoMkdir || len(c.Remarks) > 0 {
		t.Errorf("%+v %q", s, c.Remarks)
	}
	want := []string{
		"SERVER_JVMFLAGS: -Xmx1000m: has no meaning here: there is no Java process",
		"JVMFLAGS: -DsnapCont: has no meaning here: there is no Java process",
		"JVMFLAGS: -Dlogback.configurationFile: has no meaning here: there is no Java process",
	}
	if !slices.Equal(c.Notes, want) {
		t.Errorf("%q", c.Notes)
	}
	if _, err := Read(append(Environment(func(string) string { return "-Dzookeeper.snapCont=1" }), file...), disk(t, nil)); err == nil ||
		!strings.Contains(err.Error(), "SERVER_JVMFLAGS: snapCont: unknown key; did you mean snapCount?") {
		t.Error(err)
	}
}

// A flag that is refused as -D is also refused in the variables of Apache's scripts. Flags
// for Java alone are noted without their values, which may be passwords.
func TestFlagsOfJavaInTheEnvironmentAreJudgedAsThoseOfTheCommandLine(t *testing.T) {
	file, err := Parse("zoo.cfg", []byte("dataDir=/data\nclientPort=2181\n"))
	if err != nil {
		t.Fatal(err)
	}
	start := func(flag string) (*Config, error) {
		environment := Environment(func(name string) string { return map[string]string{"SERVER_JVMFLAGS": flag}[name] })
		return Read(append(environment, file...), disk(t, nil))
	}
	for _, flag := range []string{"-Djdk.tls.server.protocols=TLSv1.3", "-Dorg.bouncycastle.fips.approved_only=true", "-Djavax.net.ssl.trustStore=/cacerts"} {
		key, value, _ := strings.Cut(strings.TrimPrefix(flag, "-D"), "=")
		if _, err := start(flag); err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("SERVER_JVMFLAGS: %s: %q is refused: ", key, value)) {
			t.Errorf("%s: %v", flag, err)
		}
	}
	c, err := start("-Djavax.net.ssl.trustStorePassword=changeit1 -Dcom.sun.management.jmxremote.port=4711 -Dany.password=changeit2 -javaagent:/a.jar=changeit3")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"SERVER_JVMFLAGS: javax.net.ssl.trustStorePassword: has no meaning here: " + whyStores,
		"SERVER_JVMFLAGS: com.sun.management.jmxremote.port: has no meaning here: there is no Java process",
		"SERVER_JVMFLAGS: -Dany.password: has no meaning here: there is no Java process",
		"SERVER_JVMFLAGS: -javaagent:/a.jar: has no meaning here: there is no Java process",
	}
	if !slices.Equal(c.Notes, want) || len(c.Remarks) > 0 {
		t.Errorf("%q %q", c.Notes, c.Remarks)
	}
}

// For a key that Apache reads only as a Java property, the flag counts, and not a line of
// the file. Such a line has no effect with Apache, and may have been there for years.
func TestFlagOfWhatIsAPropertyAloneCountsForMoreThanTheFile(t *testing.T) {
	file, err := Parse("zoo.cfg", []byte("dataDir=/data\nclientPort=2181\njute.maxbuffer=1000000\nsnapCount=50\n"))
	if err != nil {
		t.Fatal(err)
	}
	environment := Environment(func(name string) string {
		return map[string]string{"SERVER_JVMFLAGS": "-Djute.maxbuffer=4000000 -Dzookeeper.snapCount=60"}[name]
	})
	c, err := Read(append(environment, file...), disk(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	const remark = "zoo.cfg:3: jute.maxbuffer: has no effect beside that in SERVER_JVMFLAGS, as in Apache ZooKeeper, which takes it only as a Java property"
	if c.Server.FrameBytesMax != 4000000 || c.Server.SnapCount != 50 || !slices.Equal(c.Remarks, []string{remark}) {
		t.Errorf("jute.maxbuffer %d, snapCount %d, %q", c.Server.FrameBytesMax, c.Server.SnapCount, c.Remarks)
	}
	if given := Given(environment, file); len(given) != 1 || given[0].Key != "jute.maxbuffer" {
		t.Errorf("given %v", given)
	}
}
