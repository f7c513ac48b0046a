package zoocfg

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/conclave-project/conclave/internal/datadir"
	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/vfs"
)

// lineKinds are the keys that describe an ensemble, without the number that follows them.
var lineKinds = []string{"server", "group", "weight"}

// lineKey reports whether a key describes an ensemble.
func lineKey(key string) bool {
	kind, _, numbered := strings.Cut(key, ".")
	return numbered && slices.Contains(lineKinds, kind)
}

// nearLine finds the kind of line that a mistyped key is near to: a server line that is not
// recognized would be missing from the ensemble.
func nearLine(key string) string {
	kind, number, _ := strings.Cut(key, ".")
	if _, err := strconv.ParseUint(number, 10, 63); err != nil {
		return ""
	}
	for _, known := range lineKinds {
		if distance(strings.ToLower(kind), known) <= 2 {
			return known + "." + number
		}
	}
	return ""
}

// line reads one line of an ensemble.
func (r *reader) line(e Entry) {
	if err := r.lines.Set(e.Key, e.Value); err != nil {
		r.problem(e, err.Error(), "")
		return
	}
	r.lineEntries = append(r.lineEntries, e)
}

// dynamicFile reads the file that holds the lines, and beside it the file with the
// configuration that was proposed when the server stopped.
func (r *reader) dynamicFile(name string) error {
	entries, err := r.entriesOf(name)
	if err != nil {
		return err
	}
	r.dynamic, r.dynamicName = entries, name
	return nil
}

// entriesOf reads and splits a file.
func (r *reader) entriesOf(name string) ([]Entry, error) {
	text, err := vfs.ReadFile(r.fsys, filepath.Clean(name), fileBytesMax)
	if err != nil {
		return nil, err
	}
	return Parse(name, text)
}

// versionOf returns the version of a dynamic configuration file, the hexadecimal number in
// which its name ends; 0 without one.
func versionOf(name string) int64 {
	version, err := strconv.ParseInt(name[strings.LastIndexByte(name, '.')+1:], 16, 64)
	if err != nil || version < 0 {
		return 0
	}
	return version
}

// readLines reads the lines of the dynamic file.
func (r *reader) readLines() {
	if r.dynamicName != "" && len(r.lineEntries) > 0 {
		r.problem(r.lineEntries[0], "is not allowed here when dynamicConfigFile is set", "")
		return
	}
	for _, e := range r.dynamic {
		switch {
		case e.Key == "version":
			r.versionLine(e)
		case !lineKey(e.Key):
			r.problem(e, "only server., group. and weight. lines are allowed in a dynamic configuration file", "")
		default:
			r.line(e)
		}
	}
}

// versionLine reads the version line of a dynamic file whose name does not end in a
// version. Apache ZooKeeper refuses such a line.
func (r *reader) versionLine(e Entry) {
	named := versionOf(r.dynamicName)
	if err := r.lines.Set(e.Key, e.Value); err != nil {
		r.problem(e, err.Error(), "")
		return
	}
	if written, _ := strconv.ParseInt(e.Value, 16, 64); named != 0 && named != written {
		r.problem(e, fmt.Sprintf("%x is not the version that the name of this file ends in, %x: rename the file, or remove the line", written, named), "")
	}
}

// ensemble decides whether the lines make an ensemble, as Apache does, and stores what they
// say.
func (r *reader) ensemble() {
	before := len(r.errs)
	r.readLines()
	if len(r.errs) > before {
		return
	}
	if r.lines.Empty() {
		if pointer, given := r.seen["dynamicConfigFile"]; given && r.dynamicName != "" {
			r.problem(pointer, r.dynamicName+" has no server line: the server would start alone, and accept writes that no other server has. "+
				"Copy the file from another server of the ensemble, or leave out the key for a standalone server", "")
			return
		}
		if !r.standalone {
			r.missing("standaloneEnabled", "false asks for an ensemble, but there are no server lines")
		}
		return
	}
	at := r.lineEntries[0]
	config, err := r.lines.Config()
	if err != nil {
		r.problem(at, err.Error(), "")
		return
	}
	participants := config.Participants()
	switch {
	case len(participants) == 1 && r.standalone && len(config.Members) > 1:
		r.problem(at, "observers need an ensemble of at least two participants, or standaloneEnabled=false", "")
	case len(participants) == 1 && r.standalone:
		r.oneMember(at, &config.Members[0])
	default:
		r.several(at, config)
	}
}

// oneMember takes over the client port of the only server line.
func (r *reader) oneMember(at Entry, m *ensemble.Member) {
	if m.Client.Port == 0 {
		r.remark(&at, "one server is not an ensemble, so the line is ignored")
	}
	if m.Client.Wildcard() && r.clientHost != "" {
		m.Client.Host = strings.Trim(r.clientHost, "[]")
	}
	r.clientOf(at, m)
}

// clientOf takes over the client port of this server's line. If clientPort has a different
// value, one of the two is a mistake.
func (r *reader) clientOf(at Entry, m *ensemble.Member) {
	if secure := int(m.Secure.Port); secure != 0 {
		if r.securePort != 0 && r.securePort != secure {
			r.problem(at, fmt.Sprintf("secure client port %d is not secureClientPort %d", secure, r.securePort), "")
			return
		}
		if r.securePort = secure; !m.Secure.Wildcard() {
			r.secureHost = m.Secure.Host
		}
	}
	port := int(m.Client.Port)
	if port == 0 {
		return
	}
	if r.clientPort != 0 && r.clientPort != port {
		r.problem(at, fmt.Sprintf("client port %d is not clientPort %d", port, r.clientPort), "")
		return
	}
	static := ensemble.Address{Host: strings.Trim(r.clientHost, "[]")}
	if static.Host != "" && !static.Wildcard() && !static.Same(m.Client) {
		r.problem(at, fmt.Sprintf("client address %s is not clientPortAddress %s", m.Client.Host, r.clientHost), "")
		return
	}
	r.clientPort, r.clientHost = port, m.Client.Host
	if m.Client.Wildcard() {
		r.clientHost = "" // all addresses, of both families
	}
}

// several takes over the configuration of an ensemble.
func (r *reader) several(at Entry, config *ensemble.Config) {
	c := &r.out.Server
	config.Version = max(versionOf(r.dynamicName), config.Version)
	c.Ensemble = config
	r.forEnsembles(at)
	if r.oracle == "" || !r.askOracle(config) {
		r.countParticipants(at, len(config.Participants()))
	}
	for i := range config.Members {
		if m := &config.Members[i]; len(m.Quorum) > 1 && !c.Reconfig.MultiAddress {
			r.problem(r.entryOf(at, m.ID), "has several addresses: that needs multiAddress.enabled=true", "")
		}
	}
	r.sharedAddresses(at, config.Members)
	r.ownMachine(at, config.Members)
	if !r.standalone {
		c.Reconfig.ParticipantsMin = 1
	}
	r.proposed()
	if own := r.own(at, config); own != nil {
		r.keep(at, own)
	}
}

// countParticipants remarks on numbers of participants that are of little use.
func (r *reader) countParticipants(at Entry, participants int) {
	switch {
	case participants <= 2:
		r.remark(&at, "no failure of a server is survived: that takes three participants, but here are %d", participants)
	case participants%2 == 0:
		r.remark(&at, "%d participants survive no more failures than %d do", participants, participants-1)
	}
}

// own finds this server's line, nil if it cannot be started with the others.
func (r *reader) own(at Entry, config *ensemble.Config) *ensemble.Member {
	c := &r.out.Server
	if c.DataDir == "" {
		return nil
	}
	file := filepath.Join(c.DataDir, "myid")
	id, found, err := datadir.MyID(r.fsys, c.DataDir)
	e, given := r.seen[myIDKey]
	switch {
	case err != nil:
		r.errs = append(r.errs, err)
		return nil
	case given && r.givenID == nil:
		return nil // that was reported already
	case !found && !given:
		r.errs = append(r.errs, fmt.Errorf("%s: is missing: write this server's number N, that of its line server.N, into it", file))
		return nil
	case !found:
		file, id = e.where(), *r.givenID
	case given && id != *r.givenID:
		r.problem(e, fmt.Sprintf("is server %d, but %s says %d: the directory is that of another server", *r.givenID, file, id), "")
		return nil
	}
	c.ID = quorum.ID(id)
	m, line := config.Member(c.ID), r.entryOf(at, c.ID)
	if m == nil && c.ReconfigEnabled {
		m, line = r.notAmong(line)
		c.Own = m
	}
	if m == nil {
		r.errs = append(r.errs, fmt.Errorf("%s: server %d is not among the server lines (%s and on): "+
			"a server that will join needs its own line, too", file, id, at.where()))
		return nil
	}
	c.Observer = m.Observer
	r.out.Server.ListenOnAll = r.listenOnAll
	if r.observer != m.Observer {
		if e, given := r.seen["peerType"]; given {
			r.remark(&e, "is not the role in %s, which counts", line.where())
		}
	}
	r.clientOf(line, m)
	return m
}

// myIDKey sets the number of this server if there is no file myid.
const myIDKey = "conclave.myid"

// myID reads the number of a server, or the name of a pod of a StatefulSet. Pods are
// counted from 0 and servers of an ensemble from 1.
func (r *reader) myID(v string) error {
	text, more := v, int64(0)
	if at := strings.LastIndexByte(v, '-'); at >= 0 {
		text, more = v[at+1:], 1
	}
	id, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return fmt.Errorf("%q is neither a number nor a name that ends in - and a number", v)
	}
	number := int64(id) + more
	r.givenID = &number
	return nil
}

// ownLineKey is the line of a server that is not in the configuration.
const ownLineKey = "conclave.ownLine"

// notAmong finds the line of a server that is not in the configuration, and where the line
// is written: in the configuration that was proposed when the server stopped, or under
// ownLineKey. It returns nil if there is none.
func (r *reader) notAmong(at Entry) (*ensemble.Member, Entry) {
	id := r.out.Server.ID
	if next := r.out.Server.Pending; next != nil && next.Member(id) != nil {
		m := *next.Member(id)
		if r.clientPort != 0 { // clientPort counts until the line is in force
			m.Client = ensemble.Address{}
		}
		if r.securePort != 0 {
			m.Secure = ensemble.Address{}
		}
		return &m, Entry{Key: serverKey(id), File: nextName(r.file)}
	}
	if r.ownLine == "" {
		return nil, at
	}
	at = r.seen[ownLineKey]
	m, err := ensemble.ParseMember(id, r.ownLine)
	if err != nil {
		r.problem(at, err.Error(), "")
		return nil, at
	}
	return &m, at
}

func serverKey(id quorum.ID) string { return "server." + strconv.FormatInt(int64(id), 10) }

// entryOf returns the entry of a server's line, for messages; otherwise if it has none.
func (r *reader) entryOf(otherwise Entry, id quorum.ID) Entry {
	key := serverKey(id)
	for _, e := range slices.Backward(r.lineEntries) {
		if e.Key == key {
			return e
		}
	}
	return otherwise
}

// forEnsembles checks what only an ensemble needs or refuses.
func (r *reader) forEnsembles(at Entry) {
	c := &r.out.Server
	if _, given := r.seen["initLimit"]; !given || c.InitLimit == 0 {
		r.missing("initLimit", "is not set: the ensemble ("+at.where()+") needs it, in ticks that a server has to join its leader")
	}
	if _, given := r.seen["syncLimit"]; !given || c.SyncLimit == 0 {
		r.missing("syncLimit", "is not set: the ensemble ("+at.where()+") needs it, in ticks after which a silent server is given up")
	}
	for _, e := range r.inEnsemble {
		if r.seen[e.Key] == e {
			r.asked(e, r.table[e.Key])
		}
	}
}

// proposed reads the configuration that was proposed when the server stopped.
func (r *reader) proposed() {
	if r.dynamicName == "" || r.file == "" {
		return
	}
	c := &r.out.Server
	name := nextName(r.file)
	entries, err := r.entriesOf(name)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var lines ensemble.Builder
	for _, e := range entries {
		if err == nil {
			err = lines.Set(e.Key, e.Value)
		}
	}
	var next *ensemble.Config
	if err == nil {
		next, err = lines.Config()
	}
	if err != nil {
		r.errs = append(r.errs, fmt.Errorf("%s: the configuration that was proposed last: %w", name, err))
		return
	}
	if next.Version > c.Ensemble.Version {
		c.Pending = next
	}
}

// keep arranges for changes of the ensemble to be saved in the files that it was read from.
// own is the line of this server.
func (r *reader) keep(at Entry, own *ensemble.Member) {
	c := &r.out.Server
	if !c.ReconfigEnabled {
		return
	}
	pointer, dynamic := r.seen["dynamicConfigFile"]
	if r.file == "" || at.Line == 0 || dynamic && pointer.Line == 0 {
		r.remark(&at, "a reconfig is not kept: the next start again takes the ensemble from the command line")
		return
	}
	files, err := NewFiles(r.fsys, r.file, c.ID)
	if err != nil {
		r.errs = append(r.errs, err)
		return
	}
	files.own, files.start = *own, r.startWith
	if r.inFile("clientPort") {
		files.client = listening(r.clientHost, r.clientPort)
	}
	if r.inFile("secureClientPort") {
		files.secure = listening(r.secureHost, r.securePort)
	}
	c.SaveEnsemble = files.Save
}

// inFile reports whether a key was not given elsewhere than in a file.
func (r *reader) inFile(key string) bool {
	e, given := r.seen[key]
	return !given || e.Line != 0
}

func listening(host string, port int) ensemble.Address {
	return ensemble.Address{Host: strings.Trim(host, "[]"), Port: uint16(port)}
}

// startWith returns why a start would be refused if the static file had this text, combined
// with the settings that were given outside files.
func (r *reader) startWith(static []byte) error {
	entries, err := Parse(r.file, static)
	if err != nil {
		return err
	}
	from := slices.IndexFunc(r.given, func(e Entry) bool { return e.Line != 0 })
	others := slices.DeleteFunc(slices.Clone(r.given), func(e Entry) bool { return e.Line != 0 })
	_, err = Read(slices.Concat(others[:from], entries, others[from:]), r.fsys)
	return err
}
