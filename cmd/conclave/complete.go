package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// completeMax bounds how long a shell waits for names.
const completeMax = time.Second

// complete offers the elections of the store. Stores that cannot be asked offer
// nothing: a shell that completes shows no errors.
func (b *ballot) complete(_ *cobra.Command, _ []string, start string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(context.Background(), completeMax)
	defer cancel()
	store, names, err := b.names(ctx)
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

// completeStore offers the schemes.
func completeStore(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var all []string
	for _, k := range backends {
		all = append(all, k.scheme+"://\t"+k.about)
	}
	return all, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
}
