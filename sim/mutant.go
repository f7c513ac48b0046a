package sim

import (
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// Mutant is a known bug, put back around a server: at its disk, on its links, in
// what it hears and in what it says to clients. The code of the server itself
// knows nothing of them.
type Mutant uint8

// The mutants.
const (
	None Mutant = iota
	LogNotSynced

	mutants
)

func mutantRecovered(_ *process, r replica.Recovered) replica.Recovered { return r }

func mutantEvents(_ *process, batch []replica.Event) []replica.Event { return batch }

func mutantPut(t *turns, o operation) { t.queueUp(o) }

func mutantDone(_ *turns, _ *operation, e replica.Event) replica.Event { return e }

func mutantMessage(*process, *zab.Message) bool { return true }

func mutantState(_ *process, s *replica.State) *replica.State { return s }

func mutantReply(_ *process, _ *wire.ReplyHeader, r *zk.Result) *zk.Result { return r }

func mutantNotify(c *port, e *zk.Event) { c.out = wire.AppendEvent(c.out, e) }
