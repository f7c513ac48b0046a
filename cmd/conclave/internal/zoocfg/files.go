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

// Files are where a server keeps its ensemble, as Apache ZooKeeper does, so
// that either starts from what the other left:
//
//	zoo.cfg                 everything else, and dynamicConfigFile=<path of the next one>
//	zoo.cfg.dynamic.<hex>   the lines of the configuration in force, sorted; <hex> is its version
//	zoo.cfg.dynamic.next    the one that was proposed last, with a line version=<hex>
//	zoo.cfg.bak             zoo.cfg as it was when the lines still stood in it
//
// Every file is replaced in one durable step, and zoo.cfg after the file that it
// names: a crash leaves the old configuration or the new one.
type Files struct {
	fsys   vfs.FS
	static string // absolute
	id     quorum.ID
}

// NewFiles returns the files of the server of that number beside a static
// file. A relative name is one of the present working directory.
func NewFiles(fsys vfs.FS, static string, id quorum.ID) (*Files, error) {
	name, err := filepath.Abs(static)
	if err != nil {
		return nil, fmt.Errorf("zoocfg: where %s is: %w", static, err)
	}
	return &Files{fsys: fsys, static: name, id: id}, nil
}

// nextName is the file of the configuration that was proposed last.
func nextName(static string) string { return static + ".dynamic.next" }

// tempSuffix marks a file that is not whole yet.
const tempSuffix = ".tmp"

// Save writes a configuration down: one that is proposed if next, otherwise
// the one that has come into force. One goroutine calls it at a time. After an
// error the files stand for the old configuration, or for the new one.
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

// sorted joins lines as Apache does: in the order of their text, without a line
// end after the last.
func sorted(lines []string) []byte {
	slices.Sort(lines)
	return []byte(strings.Join(lines, "\n"))
}

// replace writes a file with the permissions of the static one, which may hold passwords.
func (f *Files) replace(name string, content []byte) error {
	return vfs.ReplaceFileLike(f.fsys, name, name+tempSuffix, f.static, content)
}

// pointTo makes the static file name a dynamic one. What is said there now goes
// from the static file.
func (f *Files) pointTo(name string, c *ensemble.Config) error {
	text, err := vfs.ReadFile(f.fsys, f.static, fileBytesMax)
	if err != nil {
		return err
	}
	m := c.Member(f.id)
	rest, hadLines := without(text, m != nil && m.Client.Port != 0)
	rest = append(rest, "dynamicConfigFile="+escape(filepath.ToSlash(name))+"\n"...)
	if bytes.Equal(rest, text) {
		return nil
	}
	if hadLines {
		if err := f.replace(f.static+".bak", text); err != nil {
			return err
		}
	}
	return f.replace(f.static, rest)
}

// without leaves out of a static file what a dynamic one says, all else as it
// was written, comments too. The client port goes only if a server line has it.
// hadLines: the ensemble stood in this file.
func without(text []byte, clientPort bool) (rest []byte, hadLines bool) {
	lines := lineReader{text: text, line: 1}
	kept := 0
	for lines.next() {
		e, err := split(lines.logical)
		switch {
		case err != nil:
			continue
		case lineKey(e.Key):
			hadLines = true
		case e.Key == "dynamicConfigFile", e.Key == "peerType":
		case clientPort && (e.Key == "clientPort" || e.Key == "clientPortAddress"):
		default:
			continue
		}
		rest = append(rest, text[kept:lines.from]...)
		kept = lines.at
	}
	rest = append(rest, text[kept:]...)
	if len(rest) > 0 && rest[len(rest)-1] != '\n' {
		rest = append(rest, '\n')
	}
	return rest, hadLines
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

// dropNext removes a proposal that is decided.
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
