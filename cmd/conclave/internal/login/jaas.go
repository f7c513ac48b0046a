package login

import (
	"fmt"
	"strings"
	"unicode"
)

// module is one entry of a section of a JAAS file: a class and its options.
type module struct {
	class   string
	options map[string]string
}

// option reports whether an option is true.
func (m *module) on(option string) bool { return strings.EqualFold(m.options[option], "true") }

// parse reads a JAAS file:
//
//	Server {
//	    org.apache.zookeeper.server.auth.DigestLoginModule required
//	    user_bob="secret";
//	};
//
// A section must have exactly one module; Java would try several in turn. Errors contain
// the line and what is expected there, but not what is there: in a file that is nearly
// right it may be a password.
func parse(file string, text []byte) (map[string]module, error) {
	p := parser{file: file, rest: []rune(string(text)), line: 1}
	sections := map[string]module{}
	for {
		name, ok := p.next()
		if !ok {
			return sections, p.err
		}
		m, err := p.section(name)
		if err != nil {
			return nil, err
		}
		if _, twice := sections[name]; twice {
			return nil, p.wrong("section %s is there twice", name)
		}
		sections[name] = m
	}
}

// section reads the text between a section's braces.
func (p *parser) section(name string) (module, error) {
	m := module{options: map[string]string{}}
	if err := p.expect("{"); err != nil {
		return m, err
	}
	m.class, _ = p.next()
	switch control, _ := p.next(); strings.ToLower(control) {
	case "required", "requisite", "sufficient", "optional":
	default:
		return m, p.wrong("section %s: want a class and one of required, requisite, sufficient and optional", name)
	}
	for {
		option, ok := p.next()
		switch {
		case !ok:
			return m, p.wrong("section %s has no end", name)
		case option == ";":
			if next, _ := p.next(); next != "}" {
				return m, p.wrong("section %s has several modules, or no }: one module is read", name)
			}
			return m, p.expect(";")
		}
		if err := p.expect("="); err != nil {
			return m, err
		}
		value, ok := p.next()
		if !ok || p.marks && strings.Contains("{};=", value) {
			return m, p.wrong("section %s: an option has no value", name)
		}
		if strings.Contains(value, "${") {
			return m, p.wrong("section %s: ${ in an option is not replaced, because there are no Java properties here: write the value", name)
		}
		m.options[option] = value
	}
}

// parser splits a JAAS file into names, quoted texts, and the marks { } ; =.
type parser struct {
	file  string
	rest  []rune
	line  int
	marks bool // the last one was a mark
	err   error
}

func (p *parser) wrong(format string, args ...any) error {
	if p.err != nil {
		return p.err
	}
	return fmt.Errorf("%s:%d: %s", p.file, p.line, fmt.Sprintf(format, args...))
}

func (p *parser) expect(mark string) error {
	if got, _ := p.next(); got != mark || !p.marks {
		return p.wrong("want %s", mark)
	}
	return nil
}

func (p *parser) take() rune {
	r := p.rest[0]
	p.rest = p.rest[1:]
	if r == '\n' {
		p.line++
	}
	return r
}

// skip skips white space and comments; false at the end.
func (p *parser) skip() bool {
	for len(p.rest) > 0 {
		switch {
		case unicode.IsSpace(p.rest[0]):
			p.take()
		case p.at("//"):
			for len(p.rest) > 0 && p.rest[0] != '\n' {
				p.take()
			}
		case p.at("/*"):
			for len(p.rest) > 0 && !p.at("*/") {
				p.take()
			}
			if len(p.rest) == 0 {
				p.err = p.wrong("a comment has no end")
				return false
			}
			p.take()
			p.take()
		default:
			return true
		}
	}
	return false
}

func (p *parser) at(s string) bool {
	return len(p.rest) >= 2 && string(p.rest[:2]) == s
}

// next returns the next name, text or mark; false at the end.
func (p *parser) next() (string, bool) {
	p.marks = false
	if !p.skip() {
		return "", false
	}
	if r := p.rest[0]; strings.ContainsRune("{};=", r) {
		p.take()
		p.marks = true
		return string(r), true
	}
	if r := p.rest[0]; r == '"' || r == '\'' {
		return p.quoted()
	}
	var b strings.Builder
	for len(p.rest) > 0 && !unicode.IsSpace(p.rest[0]) && !strings.ContainsRune(`{};="'`, p.rest[0]) && !p.at("//") && !p.at("/*") {
		b.WriteRune(p.take())
	}
	return b.String(), true
}

// quoted reads a text up to its closing quotation mark, on one line.
func (p *parser) quoted() (string, bool) {
	end := p.take()
	var b strings.Builder
	for len(p.rest) > 0 && p.rest[0] != '\n' {
		r := p.take()
		switch {
		case r == end:
			return b.String(), true
		case r == '\\' && len(p.rest) > 0:
			r = p.take()
			switch r {
			case 'n':
				r = '\n'
			case 't':
				r = '\t'
			}
		}
		b.WriteRune(r)
	}
	p.err = p.wrong("a text has no end on its line")
	return "", false
}
