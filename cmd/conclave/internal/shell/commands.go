package shell

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// A command is a command of the shell.
type command struct {
	name    string
	syntax  string // what follows the name
	about   string
	options []option
	alone   [][]string // groups of options that exclude each other
	least   int        // fewest arguments; zkCli.sh ignores superfluous ones
	most    int        // most arguments; -1 for any number
	paths   int        // how many of the first arguments are paths
	inMulti bool       // allowed between multi and commit
	ours    bool       // zkCli.sh has no such command
	offline bool       // needs no session
	run     func(ctx context.Context, s *Shell, in *input) error
}

var (
	optStat    = option{"s", "", "print the numbers of the znode, too"}
	optWatch   = option{"w", "", "print the next change"}
	optVersion = option{"v", "version", "only if it has this version"}
)

// table returns all commands, with zkCli.sh's first.
func table() []command {
	const any = -1
	return append([]command{
		{name: "addWatch", syntax: "[-m mode] path", about: "print all changes of a znode, and with PERSISTENT_RECURSIVE, the default mode, of everything below it",
			options: []option{{"m", "mode", "PERSISTENT or PERSISTENT_RECURSIVE"}}, least: 1, most: any, paths: 1, run: runAddWatch},
		{name: "addauth", syntax: "scheme auth", about: "show a credential to the servers, such as digest user:password", least: 1, most: any, run: runAddAuth},
		{name: "close", about: "end the session", most: any, offline: true, run: runClose},
		{name: "config", syntax: "[-c] [-w] [-s]", about: "print the configuration of the ensemble",
			options: []option{{"c", "", "print the version and the servers, as clients take them"}, optWatch, optStat}, most: any, run: runConfig},
		{name: "connect", syntax: "[host:port]", about: "open a new session, with other servers", most: any, offline: true, run: runConnect},
		{name: "create", syntax: "[-s] [-e] [-c] [-t ttl] path [data] [acl]", about: "create a znode",
			options: []option{{"s", "", "the server appends a number to the name"}, {"e", "", "it is deleted when the session ends"},
				{"c", "", "a container: it is deleted some time after its last child"}, {"t", "ttl", "it is deleted if it is unchanged and has no children for this many milliseconds"}},
			least: 1, most: any, paths: 1, inMulti: true, run: runCreate},
		{name: "delete", syntax: "[-v version] path", about: "delete a znode without children", options: []option{optVersion},
			least: 1, most: any, paths: 1, inMulti: true, run: runDelete},
		{name: "deleteall", syntax: "path [-b batch size]", about: "delete a znode and everything below it",
			options: []option{{"b", "batch size", "accepted for zkCli.sh; always 128 deletions are in progress at once"}}, least: 1, most: any, paths: 1, run: runDeleteAll},
		{name: "delquota", syntax: "[-n|-b|-N|-B] path", about: "remove a limit of a znode, or all", options: quotaOptions(""),
			alone: [][]string{{"n", "b", "N", "B"}}, least: 1, most: any, paths: 1, run: runDelQuota},
		{name: "get", syntax: "[-s] [-w] [-b] [-x] path", about: "print the data of a znode",
			options: []option{optStat, optWatch, {"b", "", "in Base64"}, {"x", "", "in hexadecimal"}}, least: 1, most: any, paths: 1, run: runGet},
		{name: "getAcl", syntax: "[-s] path", about: "print who may do what with a znode", options: []option{optStat}, least: 1, most: any, paths: 1, run: runGetACL},
		{name: "getAllChildrenNumber", syntax: "path", about: "print how many znodes are below one", least: 1, most: any, paths: 1, run: runCount},
		{name: "getEphemerals", syntax: "[path]", about: "print the ephemerals of this session whose paths begin with path", most: any, paths: 1, run: runEphemerals},
		{name: "history", about: "print the last lines, with their numbers", most: any, offline: true, run: runHistory},
		{name: "listquota", syntax: "path", about: "print the limits of a znode, and how much of them is used", least: 1, most: any, paths: 1, run: runListQuota},
		{name: "ls", syntax: "[-s] [-w] [-R] [path]", about: "print the children of a znode", options: []option{optStat, optWatch, {"R", "", "everything below it, as paths"}},
			most: any, paths: 1, run: runList},
		{name: "printwatches", syntax: "on|off", about: "choose whether changes that are watched are printed", most: any, offline: true, run: runPrintWatches},
		{name: "quit", about: "end the session, and leave", most: any, offline: true, run: runQuit},
		{name: "reconfig", syntax: "[-s] [-v version] [[-file path] | [-members serverID=host:port1:port2;port3[,...]*]] | [-add serverId=host:port1:port2;port3[,...]]* [-remove serverId[,...]*]",
			about: "change the servers of the ensemble", options: []option{optStat, {"v", "version", "only if this configuration is in force, in hexadecimal"},
				{"file", "path", "the whole new ensemble, in a file"}, {"members", "servers", "the whole new ensemble"},
				{"add", "servers", "servers that join"}, {"remove", "ids", "servers that leave"}}, most: any, run: runReconfig},
		{name: "redo", syntax: "number", about: "run a line of the history again", least: 1, most: any, offline: true, run: runRedo},
		{name: "removewatches", syntax: "path [-c|-d|-a] [-l]", about: "end the watches of a znode",
			options: []option{{"c", "", "those of children"}, {"d", "", "those of data"}, {"a", "", "all, the default"}, {"l", "", "remove them here, even if no server answers"}},
			alone:   [][]string{{"c", "d", "a"}}, least: 1, most: any, paths: 1, run: runRemoveWatches},
		{name: "set", syntax: "path data [-s] [-v version] [-b]", about: "replace the data of a znode",
			options: []option{optStat, optVersion, {"b", "", "the data is given in Base64"}}, least: 2, most: any, paths: 1, inMulti: true, run: runSet},
		{name: "setAcl", syntax: "[-s] [-v version] [-R] path acl", about: "replace who may do what with a znode: world:anyone:cdrwa,...",
			options: []option{optStat, optVersion, {"R", "", "of everything below it, too"}}, least: 2, most: any, paths: 1, run: runSetACL},
		{name: "setquota", syntax: "-n|-b|-N|-B val path", about: "set a limit on what is below a znode", options: quotaOptions("val"),
			alone: [][]string{{"n", "b", "N", "B"}}, least: 1, most: any, paths: 1, run: runSetQuota},
		{name: "stat", syntax: "[-w] path", about: "print the numbers of a znode", options: []option{optWatch}, least: 1, most: any, paths: 1, run: runStat},
		{name: "sync", syntax: "path", about: "wait until the server has what its leader had", least: 1, most: any, paths: 1, run: runSync},
		{name: "version", about: "print the version of this program", offline: true, run: runVersion},
		{name: "whoami", about: "print the identities that the connection has proved", most: any, run: runWhoAmI},
	}, ourCommands()...)
}

// ourCommands returns the commands that zkCli.sh does not have.
func ourCommands() []command {
	return []command{
		{name: "cd", syntax: "[path]", about: "make paths without a leading slash begin at a znode", most: 1, paths: 1, ours: true, run: runCd},
		{name: "pwd", about: "print where such paths begin", ours: true, offline: true, run: runPwd},
		{name: "find", syntax: "[-i] path pattern", about: "print the paths below a znode whose last name fits a pattern: *, ?, [a-z]",
			options: []option{{"i", "", "ignore case"}}, least: 2, most: 2, paths: 1, ours: true, run: runFind},
		{name: "tree", syntax: "[-L levels] [path]", about: "print everything below a znode as a tree",
			options: []option{{"L", "levels", "at most this many levels"}}, most: 1, paths: 1, ours: true, run: runTree},
		{name: "watch", syntax: "[-r] [-n count] [-b] path", about: "print changes as they happen, until Ctrl-C",
			options: []option{{"r", "", "of everything below it, too"}, {"n", "count", "end after this many"}, {"b", "", "print them in the background, until unwatch"}},
			least:   1, most: 1, paths: 1, ours: true, run: runWatch},
		{name: "unwatch", syntax: "[path]", about: "end what watch -b began, at a path or everywhere", most: 1, paths: 1, ours: true, offline: true, run: runUnwatch},
		{name: "multi", about: "begin a block of create, set, delete and check lines that are carried out together", ours: true, run: runMulti},
		{name: "check", syntax: "[-v version] path", about: "in a block: make it fail unless a znode exists, with this version",
			options: []option{optVersion}, least: 1, most: 1, paths: 1, ours: true, inMulti: true, run: runCheck},
		{name: "commit", about: "carry out a block, all of it or nothing", ours: true, inMulti: true, run: runCommit},
		{name: "abort", about: "discard a block", ours: true, inMulti: true, offline: true, run: runAbort},
		{name: "help", syntax: "[command]", about: "print the commands, or what one takes", most: 1, ours: true, offline: true, inMulti: true, run: runHelp},
		{name: "exit", about: "the same as quit", ours: true, offline: true, run: runQuit},
	}
}

func quotaOptions(value string) []option {
	return []option{{"n", value, "of znodes, a soft limit"}, {"b", value, "of bytes, a soft limit"},
		{"N", value, "of znodes, a hard limit"}, {"B", value, "of bytes, a hard limit"}}
}

// find returns the command with a name, nil if there is none.
func (s *Shell) find(name string) *command { return findIn(s.commands, name) }

func findIn(commands []command, name string) *command {
	i := slices.IndexFunc(commands, func(c command) bool { return c.name == name })
	if i < 0 {
		return nil
	}
	return &commands[i]
}

// Offline reports whether a command needs no session: version, help, and unknown names.
func Offline(name string) bool {
	c := findIn(table(), name)
	return c == nil || c.offline && name != "connect"
}

// Names returns the names of all commands and what they do.
func Names() []string {
	var all []string
	for _, c := range table() {
		all = append(all, c.name+"\t"+c.about)
	}
	return all
}

// usage returns the syntax of a command and its options.
func (c *command) usage() string {
	text := strings.TrimSuffix(c.name+" "+c.syntax, " ")
	for _, o := range c.options {
		text += fmt.Sprintf("\n  %-18s %s", strings.TrimSuffix("-"+o.name+" "+o.value, " "), o.about)
	}
	return text
}

// nearest returns a hint for the error of a line that names no command.
func (s *Shell) nearest(err error) string {
	u, ok := err.(unknown)
	if !ok {
		return ""
	}
	for _, c := range s.commands {
		if strings.EqualFold(c.name, u.name) || len(u.name) > 2 && strings.HasPrefix(strings.ToLower(c.name), strings.ToLower(u.name)) {
			return "did you mean " + c.name + "?"
		}
	}
	return "help lists the commands"
}

func runHelp(_ context.Context, s *Shell, in *input) error {
	if wanted := in.arg(0); wanted != "" {
		c := s.find(wanted)
		if c == nil {
			return unknown{wanted}
		}
		s.println(c.usage() + "\n" + c.about)
		return nil
	}
	for _, ours := range []bool{false, true} {
		if ours {
			s.println("\nin addition to those of zkCli.sh:")
		}
		for _, c := range s.commands {
			if c.ours == ours {
				s.println(fmt.Sprintf("  %-21s %s", c.name, c.about))
			}
		}
	}
	s.println("\nhelp COMMAND prints what one takes. Paths without a leading slash begin where cd was last.")
	return nil
}

func runVersion(_ context.Context, s *Shell, _ *input) error {
	s.println(s.options.Version)
	return nil
}
