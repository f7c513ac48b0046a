package command

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// completeMax bounds how long a shell waits for completions.
const completeMax = 800 * time.Millisecond

// complete offers the elections of the store. If the store cannot be asked, it offers
// nothing, because a shell does not show errors during completion.
func (s *storeFlags) complete(_ *cobra.Command, _ []string, start string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(context.Background(), completeMax)
	defer cancel()
	store, names, err := s.names(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	store.close()
	var fitting []string
	for _, name := range names {
		if strings.HasPrefix(name, start) {
			fitting = append(fitting, name)
		}
	}
	return fitting, cobra.ShellCompDirectiveNoFileComp
}

// completePath offers the znodes in the directory of a path.
func (n *connection) completePath(c *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
	const noMore = cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	last := strings.LastIndexByte(start, '/')
	if last < 0 {
		return []string{"/"}, noMore
	}
	parent := max(start[:last], "/")
	n.timeout = completeMax
	var fitting []string
	_ = n.session(c, func(ctx context.Context, s *session) error {
		all, err := children(ctx, s, parent)
		for _, name := range all {
			if path := join(parent, name); strings.HasPrefix(path, start) {
				fitting = append(fitting, path)
			}
		}
		return err
	})
	slices.Sort(fitting)
	return fitting[:min(len(fitting), completionsMax)], noMore
}

// completionsMax bounds what a shell is offered from a large directory.
const completionsMax = 1000

// completeCandidate offers the elections, and then the waiters of the one named.
func (a *asking) completeCandidate(c *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 && a.name == "" {
		return a.complete(c, args, start)
	}
	if _, err := a.take(c, args); err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(context.Background(), completeMax)
	defer cancel()
	store, err := a.look(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer store.close()
	for v, err := range store.Observe(ctx, a.name) {
		if err != nil {
			break
		}
		return slices.DeleteFunc(v.WaiterIDs(), func(id string) bool { return !strings.HasPrefix(id, start) }),
			cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// completeStore offers the schemes of stores.
func completeStore(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var all []string
	for _, k := range backends {
		all = append(all, k.scheme+"://\t"+k.about)
	}
	return all, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
}
