package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// prepare makes the commit and the tags of a version.
func (w *workspace) prepare(version string) error {
	n, err := parseVersion(version)
	if err != nil {
		return err
	}
	if n.parts[0] > 1 {
		return fmt.Errorf("%s: the paths of the modules must end with /v%d first", version, n.parts[0])
	}
	if dirty, err := output(".", "git", "status", "--porcelain"); err != nil || dirty != "" {
		return errors.Join(err, errors.New("the tree has changes: commit them first"))
	}
	last, err := lastVersion()
	if err != nil {
		return err
	}
	var api changes
	if last != "" {
		earlier, _ := parseVersion(last) // lastVersion has parsed it already
		if n.compare(earlier) <= 0 {
			return fmt.Errorf("%s is tagged: %s is not higher", last, version)
		}
		if api, err = w.apiSince(last); err != nil {
			return err
		}
		if len(api.breaking) > 0 && !n.mayBreak(earlier) {
			return fmt.Errorf("%s may not break the API of %s:\n%s", version, last, api.markdown())
		}
	}
	if err := closeSection(version, api); err != nil {
		return err
	}
	if err := w.setVersion(version); err != nil {
		return err
	}
	return w.commit(version)
}

const changelog = "CHANGELOG.md"

// unreleased is the heading below which changes are noted.
const unreleased = "## Not released yet\n"

// closeSection gives the changes since the last version their heading.
func closeSection(version string, api changes) error {
	text, err := os.ReadFile(changelog)
	if err != nil {
		return err
	}
	closed, err := closed(string(text), version, time.Now().UTC().Format(time.DateOnly), api)
	if err != nil {
		return err
	}
	return os.WriteFile(changelog, []byte(closed), 0o644)
}

func closed(text, version, date string, api changes) (string, error) {
	before, after, found := strings.Cut(text, unreleased)
	if !found {
		return "", fmt.Errorf("%s has no heading %q", changelog, strings.TrimSpace(unreleased))
	}
	noted, older, _ := strings.Cut(after, "\n## ")
	if strings.TrimSpace(noted) == "" {
		return "", fmt.Errorf("%s: nothing is noted below %q", changelog, strings.TrimSpace(unreleased))
	}
	section := fmt.Sprintf("%s\n## %s (%s)\n\n%s\n%s", unreleased, version, date, strings.TrimSpace(noted), api.markdown())
	if older != "" {
		section += "\n## " + older
	}
	return before + section, nil
}

// commit commits the version, and tags every module.
func (w *workspace) commit(version string) error {
	message := "release: " + version + "\n\nAll modules, in step. CHANGELOG.md says what is new."
	if _, err := output(".", "git", "commit", "--quiet", "--all", "--message", message); err != nil {
		return err
	}
	push := []string{"git push --atomic origin HEAD"}
	for _, m := range w.modules {
		if _, err := output(".", "git", "tag", "--annotate", "--message", m.path+" "+version, m.tag(version)); err != nil {
			return err
		}
		push = append(push, m.tag(version))
	}
	fmt.Printf("%s is committed and tagged here, in %d modules; this publishes it:\n\n%s\n", version, len(w.modules), strings.Join(push, " "))
	return nil
}
