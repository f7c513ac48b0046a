package zoocfg

import "strings"

// flagVariables hold the flags with which Apache's scripts start Java. If both contain a
// property, the later one counts.
var flagVariables = []string{"SERVER_JVMFLAGS", "JVMFLAGS"}

// noMkdirVariable is set, to any value, if no directory may be created.
const noMkdirVariable = "ZOO_DATADIR_AUTOCREATE_DISABLE"

// variables returns the table of the environment variables that Apache's scripts read.
func variables() map[string]setting {
	rows := map[string]setting{
		noMkdirVariable: used(nil, "not set", "set to anything: as `datadir.autocreate=false`"),
		"JAVA_HOME":     idle(nil, whyJava),
		"ZOO_NOEXEC":    idle(nil, "`conclave serve` is the process of the server"),
	}
	for _, name := range flagVariables {
		rows[name] = used(nil, "not set", "settings as `-Dzookeeper.name=value`, with spaces between; the file wins over them, but for what Apache takes as properties alone. "+
			"What else is in it is for Java, and noted")
	}
	idles(rows, nil, whyJava, "CLASSPATH", "ZK_SERVER_HEAP", "ZOOMAIN", "JMXLOCALONLY", "JMXDISABLE", "JMXPORT", "JMXAUTH",
		"JMXSSL", "JMXLOG4J", "JMXHOSTNAME")
	idles(rows, nil, whyClients, "ZK_CLIENT_HEAP", "CLIENT_JVMFLAGS")
	idles(rows, nil, whyScripts, "ZOOBINDIR", "ZOOKEEPER_PREFIX", "ZOOCFGDIR", "ZOOCFG", "ZOO_DATADIR", "ZOO_DATALOGDIR",
		"ZOODATADIR", "ZOODATALOGDIR")
	idles(rows, nil, whyLog, "ZOO_LOG_DIR", "ZOO_LOG_FILE")
	idles(rows, nil, "what supervises the server knows its process", "ZOOPIDFILE")
	return rows
}

// Environment returns the settings with which Apache's scripts would start Java. They come
// before the settings of the file, which win, except where Apache reads only a property.
// Flags that are no settings of ZooKeeper's keep their dash, so they are noted and not
// refused as mistyped keys; their values, which may be passwords, are left out.
func Environment(value func(name string) string) []Entry {
	var entries []Entry
	if value(noMkdirVariable) != "" {
		entries = append(entries, Entry{Key: "datadir.autocreate", Value: "false", File: noMkdirVariable})
	}
	r := newReader()
	for _, variable := range flagVariables {
		for _, flag := range strings.Fields(value(variable)) {
			name, v, _ := strings.Cut(flag, "=")
			e := Entry{Key: name, File: variable}
			if property, is := strings.CutPrefix(name, "-D"); is {
				if s, _ := r.lookUp(property); s.javaOnly || strings.HasPrefix(property, "zookeeper.") {
					e.Key, e.Value = property, v
				}
			}
			entries = append(entries, e)
		}
	}
	return entries
}

// Given returns the flags of Environment that must be passed with -D to a server without
// those variables. Flags without a meaning are left out, and so are those that the file
// sets, too: the file wins over the variables, but would lose against -D.
func Given(flags, file []Entry) (given []Entry) {
	r := newReader()
	said := map[string]bool{}
	for _, e := range file {
		said[e.Key] = true
	}
	for _, e := range flags {
		name := strings.TrimPrefix(e.Key, "zookeeper.")
		s, known := r.lookUp(name)
		if e.Value != "" && (!said[name] || s.javaOnly) && !(known && s.means == noMeaning) {
			given = append(given, e)
		}
	}
	return given
}

// newReader returns a reader without settings, for its table.
func newReader() *reader {
	r := &reader{out: &Config{}}
	r.table, r.families = r.keys(), r.keyFamilies()
	return r
}
