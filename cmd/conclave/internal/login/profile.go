package login

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// profile is the content of Kerberos' configuration and the files that it includes,
// merged as in MIT's library: sections and realms may be spread over several files. It
// keeps only what the Go library uses. Of several values MIT's library takes the first,
// but here the last one counts, as in Java.
type profile struct {
	defaults, domains []string            // lines of [libdefaults] and [domain_realm]
	names             []string            // of realms, in their order
	realms            map[string][]string // their lines
	read              map[string]bool     // files
}

const filesMax = 1000 // of a profile

// text returns the profile as one file.
func (p *profile) text() string {
	lines := slices.Concat([]string{"[libdefaults]"}, p.defaults, []string{"[domain_realm]"}, p.domains, []string{"[realms]"})
	for _, name := range p.names {
		lines = slices.Concat(lines, []string{name + " = {"}, p.realms[name], []string{"}"})
	}
	return strings.Join(lines, "\n") + "\n"
}

// file adds a file.
func (p *profile) file(path string) error {
	path = filepath.Clean(path)
	switch {
	case p.read[path]:
		return errors.New("it is already included, by this file or an earlier one: remove the line")
	case len(p.read) == filesMax:
		return fmt.Errorf("more than %d files are included", filesMax)
	}
	p.read[path] = true
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	r := profileReader{profile: p}
	n, outermost, began := 0, "", 0
	for line := range strings.Lines(string(text)) {
		n++
		line, _, _ = strings.Cut(line, "#")
		line, _, _ = strings.Cut(line, ";")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		before := r.depth
		if err := r.line(line); err != nil {
			return fmt.Errorf("%s:%d: %w", path, n, err)
		}
		if before == 0 && r.depth == 1 {
			outermost, began = line, n
		}
	}
	if r.depth > 0 {
		return fmt.Errorf("%s:%d: %s: the block has no end, }", path, began, outermost)
	}
	return nil
}

// profileReader is the position of a reader in a file.
type profileReader struct {
	*profile
	section string // "[realms]"
	depth   int    // nesting of blocks
	realm   string // of the outermost block, in [realms]
}

func (r *profileReader) line(line string) error {
	key, value, relation := strings.Cut(line, "=")
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	first := strings.Fields(line)[0]
	switch {
	case value == "{" || line == "{":
		return r.opens(line, key, relation)
	case strings.HasPrefix(line, "}"):
		if r.depth == 0 {
			return errors.New("} ends no block")
		}
		r.depth--
		return nil
	case r.depth == 0 && strings.HasPrefix(line, "["):
		name, _, ok := strings.Cut(line, "]")
		if !ok {
			return fmt.Errorf("%s: want [SECTION]", line)
		}
		r.section = name + "]"
		return nil
	case r.depth == 0 && (first == "include" || first == "includedir") && !relation:
		if err := r.include(first, strings.TrimSpace(line[len(first):])); err != nil {
			return fmt.Errorf("%s: %w", line, err)
		}
		return nil
	}
	return r.relation(line, strings.ToLower(key), value, relation)
}

// opens begins a block.
func (r *profileReader) opens(line, name string, named bool) error {
	r.depth++
	if r.section != "[realms]" || r.depth > 1 {
		return nil
	}
	if !named || name == "" {
		return fmt.Errorf("%s: want NAME = {", line)
	}
	r.realm = name
	if _, known := r.realms[name]; !known {
		r.names, r.realms[name] = append(r.names, name), nil
	}
	return nil
}

// relation adds a line that sets something, if it is used here.
func (r *profileReader) relation(line, key, value string, is bool) error {
	switch {
	case r.section == "[realms]" && r.depth == 0 && strings.HasPrefix(value, "{"):
		return fmt.Errorf("%s: want NAME = {, with the content of the block on lines of its own", line)
	case r.section == "[realms]" && r.depth == 1, r.depth == 0 && (r.section == "[libdefaults]" || r.section == "[domain_realm]"):
		if !is || key == "" {
			return fmt.Errorf("%s: want KEY = VALUE", line)
		}
	default:
		return nil
	}
	switch r.section {
	case "[libdefaults]":
		return r.setDefault(line, key, value)
	case "[domain_realm]":
		r.domains = append(r.domains, key+" = "+value)
	case "[realms]":
		switch key {
		case "admin_server", "default_domain", "kdc", "kpasswd_server", "master_kdc":
			r.realms[r.realm] = append(r.realms[r.realm], key+" = "+value)
		}
	}
	return nil
}

// setDefault adds a line of [libdefaults] if the library uses its key. Other lines must
// go, because the library refuses values that it does not know even for keys that it
// does not use.
func (r *profileReader) setDefault(line, key, value string) error {
	list := strings.FieldsFunc(value, func(c rune) bool { return c == ' ' || c == '\t' || c == ',' })
	switch key {
	case "allow_weak_crypto", "canonicalize", "dns_lookup_kdc", "forwardable", "noaddresses", "proxiable":
		on, ok := truth[strings.ToLower(value)]
		if !ok {
			return fmt.Errorf("%s: want true or false", line)
		}
		value = strconv.FormatBool(on)
	case "default_tgs_enctypes", "default_tkt_enctypes":
		value = strings.Join(list, " ")
	case "preferred_preauth_types":
		value = strings.Join(list, ",")
	case "clockskew", "default_realm", "extra_addresses", "kdc_default_options", "renew_lifetime", "ticket_lifetime", "udp_preference_limit":
	default:
		return nil
	}
	r.defaults = append(r.defaults, key+" = "+value)
	return nil
}

// truth holds the spellings of yes and no in MIT's library.
var truth = map[string]bool{
	"y": true, "yes": true, "true": true, "t": true, "1": true, "on": true,
	"n": false, "no": false, "false": false, "f": false, "nil": false, "0": false, "off": false,
}

// included matches the files of a directory that are read, besides those that end in .conf.
var included = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// include adds a file, or the files of a directory. A missing file is not
// reported as a missing configuration, because an existing file names it.
func (r *profileReader) include(directive, path string) error {
	if !filepath.IsAbs(path) {
		return errors.New("want a path that begins with /")
	}
	if directive == "include" {
		return wanted(r.file(path))
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return wanted(err)
	}
	for _, entry := range entries {
		name := entry.Name()
		if !included.MatchString(name) && (strings.HasPrefix(name, ".") || !strings.HasSuffix(name, ".conf")) {
			continue
		}
		file := filepath.Join(path, name)
		info, err := os.Stat(file)
		if err != nil {
			return wanted(err)
		}
		if info.IsDir() {
			continue
		}
		if err := r.file(file); err != nil {
			return wanted(err)
		}
	}
	return nil
}

func wanted(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%v: create it, or remove the line", err)
	}
	return err
}
