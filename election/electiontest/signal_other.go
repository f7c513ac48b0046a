//go:build !unix

package electiontest

// freeze is not possible here.
func (p *process) freeze() { p.t.Skip("this system cannot freeze a process") }

func (p *process) thaw() {}
