package zk

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// The paths that always exist and cannot be deleted.
const (
	RootPath   = "/"
	SystemPath = "/zookeeper"
	QuotaPath  = "/zookeeper/quota"
	ConfigPath = "/zookeeper/config"
)

// ValidatePath returns nil if path can name a znode, and otherwise an error that says why not. It
// is the full check of create, setData, setACL and check: the path starts with a slash, does not
// end in one, has no empty, "." or ".." component, and none of the characters that ZooKeeper
// refuses (controls, surrogates, private use and U+FFF0-U+FFFF, which includes everything above the
// basic plane and every malformed byte).
func ValidatePath(path string) error {
	if path == "" {
		return fmt.Errorf("path is empty: it must start with /")
	}
	if path[0] != '/' {
		return fmt.Errorf("path %q must start with /", path)
	}
	if path == "/" {
		return nil
	}
	if path[len(path)-1] == '/' {
		return fmt.Errorf("path %q must not end in /", path)
	}
	start := 1 // of the current component
	for i := 1; i <= len(path); {
		if i == len(path) || path[i] == '/' {
			switch path[start:i] {
			case "":
				return fmt.Errorf("path %q has an empty component at byte %d", path, start)
			case ".", "..":
				return fmt.Errorf("path %q has a relative component at byte %d", path, start)
			}
			i++
			start = i
			continue
		}
		if c := path[i]; c >= 0x20 && c < 0x7f {
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(path[i:])
		if forbidden(r) {
			return fmt.Errorf("path %q has the forbidden character %U at byte %d", path, r, i)
		}
		i += size
	}
	return nil
}

// forbidden reports whether r may not occur in a path. utf8.RuneError stands for
// malformed bytes and is in the last range.
func forbidden(r rune) bool {
	return r < 0x20 || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0
}

// SplitPath returns the parent of path and its last component. The parent of
// "/x" is "/"; the root has neither. path must contain a slash.
func SplitPath(path string) (parent, name string) {
	i := strings.LastIndexByte(path, '/')
	if i <= 0 {
		return RootPath, path[i+1:]
	}
	return path[:i], path[i+1:]
}

// ParentPath returns the path one level up, "/" for "/x".
func ParentPath(path string) string {
	parent, _ := SplitPath(path)
	return parent
}

// JoinPath returns the path of the child name of parent.
func JoinPath(parent, name string) string {
	if parent == RootPath || parent == "" {
		return "/" + name
	}
	return parent + "/" + name
}
