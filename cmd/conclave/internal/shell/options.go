package shell

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
)

// An option of a command: -name, followed by a value if it takes one.
type option struct {
	name  string
	value string // name of the value in the usage, "" if it takes none
	about string
}

// input is a parsed line: the command's name, its options and arguments.
type input struct {
	of   *command
	set  map[string]string
	args []string
}

func (in *input) has(option string) bool {
	_, ok := in.set[option]
	return ok
}

// arg returns the argument at i, "" if there is none.
func (in *input) arg(i int) string {
	if i >= len(in.args) {
		return ""
	}
	return in.args[i]
}

// number returns the value of an option, or absent if the option is missing.
func (in *input) number(option string, base int, absent int64) (int64, error) {
	text, ok := in.set[option]
	if !ok {
		return absent, nil
	}
	n, err := strconv.ParseInt(text, base, 64)
	if err != nil {
		return 0, fmt.Errorf("-%s takes a number, not %q", option, cli.Visible(text))
	}
	return n, nil
}

// version returns the value of -v, -1 if it is missing, which means any version.
func (in *input) version() (int32, error) {
	n, err := in.number("v", 10, -1)
	if err == nil && int64(int32(n)) != n {
		err = fmt.Errorf("-v %d is not a version", n)
	}
	return int32(n), err
}

// read parses the options and arguments of a command as Java's clients do: options may
// stand anywhere, several letters may follow one dash, and everything after -- is an
// argument.
func (c *command) read(fields []string) (*input, error) {
	in := &input{of: c, set: map[string]string{}}
	for i := 0; i < len(fields); i++ {
		f := fields[i]
		switch {
		case f == "--":
			in.args = append(in.args, fields[i+1:]...)
			return in, nil
		case len(f) < 2 || f[0] != '-':
			in.args = append(in.args, f)
			continue
		}
		taken, err := c.option(in, f, fields[i+1:])
		if err != nil {
			return nil, err
		}
		i += taken
	}
	for _, group := range c.alone {
		var given []string
		for _, name := range group {
			if in.has(name) {
				given = append(given, "-"+name)
			}
		}
		if len(given) > 1 {
			return nil, fmt.Errorf("%s cannot be given together", strings.Join(given, " and "))
		}
	}
	return in, nil
}

// option parses a field that begins with a dash, and returns how many of the next fields it
// used.
func (c *command) option(in *input, field string, next []string) (taken int, err error) {
	if o := c.find(field[1:]); o != nil {
		if o.value == "" {
			in.set[o.name] = ""
			return 0, nil
		}
		if len(next) == 0 || c.isOption(next[0]) {
			return 0, fmt.Errorf("-%s needs a value: %s", o.name, o.value)
		}
		in.set[o.name] = next[0]
		return 1, nil
	}
	for i := 1; i < len(field); i++ {
		o := c.find(field[i : i+1])
		switch {
		case o == nil:
			return 0, fmt.Errorf("unrecognized option: %s", cli.Visible(field))
		case o.value == "":
			in.set[o.name] = ""
			continue
		case i+1 < len(field):
			in.set[o.name] = field[i+1:]
			return 0, nil
		case len(next) == 0 || c.isOption(next[0]):
			return 0, fmt.Errorf("-%s needs a value: %s", o.name, o.value)
		}
		in.set[o.name] = next[0]
		return 1, nil
	}
	return 0, nil
}

func (c *command) find(name string) *option {
	i := slices.IndexFunc(c.options, func(o option) bool { return o.name == name })
	if i < 0 {
		return nil
	}
	return &c.options[i]
}

// isOption reports whether a field is an option of the command and not a negative number.
func (c *command) isOption(field string) bool {
	if len(field) < 2 || field[0] != '-' {
		return false
	}
	if _, err := strconv.ParseFloat(field, 64); err == nil {
		return false
	}
	return c.find(field[1:]) != nil || c.find(field[1:2]) != nil
}
