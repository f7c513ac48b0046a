package zoocfg

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/vfs"
)

// Files are the files in which a server keeps its ensemble. They are Apache ZooKeeper's, so
// either server can start from what the other left:
//
//	zoo.cfg                 everything else, and dynamicConfigFile=<path of the next one>
//	zoo.cfg.dynamic.<hex>   the lines of the configuration in force, sorted; <hex> is its version
//	zoo.cfg.dynamic.next    the one that was proposed last, with a line version=<hex>
//	zoo.cfg.bak             zoo.cfg as it was when the lines still stood in it
//
// Every file is replaced in one durable step, and zoo.cfg after the file that it names: a
// crash leaves the old configuration or the new one. What a start needs and the new lines
// no longer say is put into zoo.cfg: the port for clients, and the line of a server that
// they do not name.
type Files struct {
	fsys   vfs.FS
	static string // absolute
	id     quorum.ID

	own            ensemble.Member  // the line of this server, until a newer configuration names it
	client, secure ensemble.Address // where its clients connect; port 0: no file needs to say it

	// start returns why a start would be refused with this text of the static file. If
	// start is nil, every text is accepted.
	start func(static []byte) error
}

// NewFiles returns the files of the server with a number, beside a static file. A relative
// name is relative to the current working directory.
func NewFiles(fsys vfs.FS, static string, id quorum.ID) (*Files, error) {
	name, err := filepath.Abs(static)
	if err != nil {
		return nil, fmt.Errorf("zoocfg: where %s is: %w", static, err)
	}
	return &Files{fsys: fsys, static: name, id: id}, nil
}

// nextName returns the name of the file for the configuration that was proposed last.
func nextName(static string) string { return static + ".dynamic.next" }

// tempSuffix marks a file that is not complete yet.
const tempSuffix = ".tmp"

// Save writes a configuration: a proposed one if next, otherwise the one that has come into
// force. It must not be called concurrently. After an error, the files hold the old
// configuration or the new one. A configuration with which a start would be refused is an
// error if the old one can be started with (zoocfg-C5).
func (f *Files) Save(c *ensemble.Config, next bool) error {
	if next {
		return f.replace(nextName(f.static), sorted(append(c.Lines(), "version="+hex(c.Version))))
	}
	name := f.static + ".dynamic." + hex(c.Version)
	if err := f.replace(name, sorted(c.Lines())); err != nil {
		return err
	}
	if err := f.pointTo(name, c); err != nil {
		return err
	}
	return f.dropNext(c.Version)
}

func hex(version int64) string { return strconv.FormatUint(uint64(version), 16) }

// sorted joins lines as Apache does: sorted by their text, without a line end after the
// last.
func sorted(lines []string) []byte {
	slices.Sort(lines)
	return []byte(strings.Join(lines, "\n"))
}

// replace writes a file with the permissions of the static one, which may contain
// passwords.
func (f *Files) replace(name string, content []byte) error {
	return vfs.ReplaceFileLike(f.fsys, name, name+tempSuffix, f.static, content)
}

// pointTo makes the static file name a dynamic one. What the dynamic file says now is
// removed from the static file.
func (f *Files) pointTo(name string, c *ensemble.Config) error {
	text, err := vfs.ReadFile(f.fsys, f.static, fileBytesMax)
	if err != nil {
		return err
	}
	rest, hadLines := f.edited(text, name, c.Member(f.id))
	if !bytes.Equal(rest, text) {
		if err := f.startable(rest, text); err != nil {
			return err
		}
		if hadLines {
			if err := f.replace(f.static+".bak", text); err != nil {
				return err
			}
		}
		if err := f.replace(f.static, rest); err != nil {
			return err
		}
	}
	f.note(c.Member(f.id))
	return nil
}

// startable refuses a static file with which a start would be refused, unless the previous
// one would be refused, too (zoocfg-C5).
func (f *Files) startable(now, before []byte) error {
	if f.start == nil {
		return nil
	}
	err := f.start(now)
	if err == nil || f.start(before) != nil {
		return nil
	}
	return fmt.Errorf("%s is left as it is, because this server could not be started with the new configuration: %w", f.static, err)
}

// note stores what this server's line says; m is nil if there is none.
func (f *Files) note(m *ensemble.Member) {
	if m == nil {
		return
	}
	f.own = *m
	if m.Client.Port != 0 {
		f.client = m.Client
	}
	if m.Secure.Port != 0 {
		f.secure = m.Secure
	}
}

// edited returns a static file changed so that it names a dynamic one. m is this server's
// line there, nil for none. hadLines reports whether the static file contained the
// ensemble.
func (f *Files) edited(text []byte, name string, m *ensemble.Member) (rest []byte, hadLines bool) {
	says := map[string]bool{"dynamicConfigFile": true, "peerType": true, ownLineKey: true}
	ports := []struct {
		key     string
		in, was ensemble.Address
	}{{key: "clientPort", was: f.client}, {key: "secureClientPort", was: f.secure}}
	if m != nil {
		ports[0].in, ports[1].in = m.Client, m.Secure
	}
	for _, p := range ports {
		says[p.key], says[p.key+"Address"] = p.in.Port != 0, p.in.Port != 0
	}
	rest, kept, hadLines := without(text, says)
	for _, p := range ports {
		if m != nil && p.in.Port == 0 && p.was.Port != 0 && !kept[p.key] {
			rest = fmt.Appendf(rest, "%s=%d\n", p.key, p.was.Port)
			if p.was.Host != "" && !p.was.Wildcard() {
				rest = fmt.Appendf(rest, "%sAddress=%s\n", p.key, p.was.Host)
			}
		}
	}
	if m == nil && f.own.Quorum != nil {
		rest = append(rest, ownLineKey+"="+f.own.String()+"\n"...)
	}
	return append(rest, "dynamicConfigFile="+escape(filepath.ToSlash(name))+"\n"...), hadLines
}

// without returns a static file without the lines of an ensemble and without the keys that
// the dynamic file sets. Everything else stays as it was written, including comments. kept
// are the remaining keys; hadLines reports whether the file contained the ensemble.
func without(text []byte, says map[string]bool) (rest []byte, kept map[string]bool, hadLines bool) {
	lines := lineReader{text: text, line: 1}
	kept = map[string]bool{}
	copied := 0
	for lines.next() {
		e, err := split(lines.logical)
		if err != nil {
			continue
		}
		if line := lineKey(e.Key); line || says[e.Key] {
			hadLines = hadLines || line
			rest = append(rest, text[copied:lines.from]...)
			copied = lines.at
			continue
		}
		kept[e.Key] = true
	}
	rest = append(rest, text[copied:]...)
	if len(rest) > 0 && rest[len(rest)-1] != '\n' {
		rest = append(rest, '\n')
	}
	return rest, kept, hadLines
}

// escape writes a value so that Parse, and Java, read it back.
func escape(value string) string {
	var s strings.Builder
	for i, r := range value {
		switch {
		case r == '\\', r == ' ' && i == 0:
			s.WriteByte('\\')
			s.WriteRune(r)
		case r < ' ' || r > '~' && r <= 0xffff:
			fmt.Fprintf(&s, `\u%04x`, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&s, `\u%04x\u%04x`, high, low)
		default:
			s.WriteRune(r)
		}
	}
	return s.String()
}

// dropNext removes a proposal that has been decided.
func (f *Files) dropNext(version int64) error {
	name := nextName(f.static)
	found, err := vfs.Exists(f.fsys, name)
	if err != nil || !found {
		return err
	}
	text, err := vfs.ReadFile(f.fsys, name, fileBytesMax)
	if err != nil {
		return err
	}
	if next, err := ensemble.Parse(string(text)); err == nil && next.Version > version {
		return nil
	}
	if err := f.fsys.Remove(name); err != nil {
		return err
	}
	return f.fsys.SyncDir(filepath.Dir(name))
}
