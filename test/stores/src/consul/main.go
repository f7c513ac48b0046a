// Command consul is HashiCorp's server and its "consul lock" as published, for tests. No
// program of the project links it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/hashicorp/consul/command/agent"
	"github.com/hashicorp/consul/command/cli"
	"github.com/hashicorp/consul/command/lock"
	mcli "github.com/mitchellh/cli"
)

func main() {
	stop, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ui := &cli.BasicUI{BasicUi: mcli.BasicUi{Writer: os.Stdout, ErrorWriter: os.Stderr}}
	program := mcli.CLI{
		Name: "consul",
		Args: os.Args[1:],
		Commands: map[string]mcli.CommandFactory{
			"agent": func() (mcli.Command, error) { return agent.New(ui), nil },
			"lock":  func() (mcli.Command, error) { return lock.New(ui, stop.Done()), nil },
		},
		HelpWriter:  os.Stdout,
		ErrorWriter: os.Stderr,
	}
	code, err := program.Run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "consul:", err)
	}
	os.Exit(code)
}
