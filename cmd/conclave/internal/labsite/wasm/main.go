//go:build js && wasm

// Command wasm is the laboratory in a browser: package lab behind one JavaScript function,
// which a worker calls.
package main

import (
	"encoding/json"
	"errors"
	"syscall/js"

	"github.com/conclave-project/conclave/internal/lab"
)

// request is a request of the worker. Fields that a command does not use are empty.
type request struct {
	Command string   `json:"command"` // open, run, step, back, do, scenarios
	Spec    string   `json:"spec"`    // of open
	ToUs    int64    `json:"toUs"`    // of run, back
	Verb    string   `json:"verb"`    // of do
	Args    []string `json:"args"`    // of do
	Since   int      `json:"since"`   // number of notes that the worker already has
}

// reply is the answer.
type reply struct {
	Error      string            `json:"error,omitempty"`
	Frame      *lab.Frame        `json:"frame,omitempty"`
	Scenarios  []lab.Scenario    `json:"scenarios,omitempty"`
	Algorithms map[string]string `json:"algorithms,omitempty"`
}

var world *lab.World

func main() {
	js.Global().Set("conclaveLab", js.FuncOf(func(_ js.Value, args []js.Value) any {
		var q request
		a := reply{Error: "no request"}
		if len(args) == 1 && json.Unmarshal([]byte(args[0].String()), &q) == nil {
			a = answer(q)
		}
		text, err := json.Marshal(a)
		if err != nil {
			return `{"error":"the answer cannot be written"}`
		}
		return string(text)
	}))
	select {}
}

func answer(q request) (a reply) {
	if err := carryOut(q, &a); err != nil {
		a.Error = err.Error()
	}
	if world != nil && q.Command != "scenarios" {
		frame := world.Frame(q.Since)
		a.Frame = &frame
	}
	return a
}

func carryOut(q request, a *reply) error {
	switch q.Command {
	case "scenarios":
		a.Algorithms = map[string]string{}
		for _, name := range lab.Algorithms() {
			a.Algorithms[name] = lab.Title(name)
		}
		var err error
		a.Scenarios, err = lab.Scenarios()
		return err
	case "open":
		return open(q.Spec)
	}
	if world == nil {
		return errors.New("nothing is open")
	}
	switch q.Command {
	case "run":
		world.Run(min(q.ToUs, lab.EndUs))
	case "step":
		world.Step()
	case "back":
		if err := open(world.Spec().String()); err != nil {
			return err
		}
		world.Run(max(0, q.ToUs))
	case "do":
		return world.Do(q.Verb, q.Args...)
	default:
		return errors.New("there is no command " + q.Command)
	}
	return nil
}

func open(text string) error {
	spec, err := lab.ParseSpec(text)
	if err != nil {
		return err
	}
	w, err := lab.New(spec)
	if err == nil {
		world = w
	}
	return err
}
