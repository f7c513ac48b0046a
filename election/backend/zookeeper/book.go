package zookeeper

import (
	"bytes"
	"encoding/json"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/queue"
	"github.com/conclave-project/conclave/zk"
)

// book is the data of an election's own znode.
type book struct {
	// Conclave is the version of this form. Data without it belongs to
	// somebody else and is left alone.
	Conclave int               `json:"conclave"`
	Request  *election.Request `json:"request,omitempty"`
	History  []election.Change `json:"history,omitempty"`
}

const bookForm = 1

func readBook(data []byte) (book, error) {
	b := book{Conclave: bookForm}
	if len(data) == 0 {
		return b, nil
	}
	b.Conclave = 0
	if err := json.Unmarshal(data, &b); err != nil || b.Conclave != bookForm {
		return book{}, errForeign
	}
	return b, nil
}

// of returns the book of a leader. What is asked of it may be in the book
// already: the first in the queue is seen to lead before the book says so.
func (b book) of(token election.Token, history []election.Change) book {
	if b.Request != nil && b.Request.Token != token {
		b.Request = nil
	}
	b.History = history
	return b
}

// write is the operation that puts the book in place of the given version.
func (b book) write(path string, version uint64) client.Operation {
	return client.SetOp(path, queue.Encode(b), int32(version))
}

// Data of a candidate's znode: its id, and after a nomination a line that says
// how far it is. Ids have no line breaks.
const (
	lineNominated = "\nnominated"
	lineReady     = "\nready"
	lineFailed    = "\ncold"
)

func idOf(data []byte) string {
	id, _, _ := bytes.Cut(data, []byte("\n"))
	return string(id)
}

// nominationIn returns the nomination in the data of a candidate's znode, the
// zero one for none.
func nominationIn(data []byte, stat zk.Stat) queue.Nomination {
	n := queue.Nomination{Round: zk.Zxid(stat.Mzxid).String(), Version: uint64(stat.Version)}
	switch string(data[len(idOf(data)):]) {
	case lineNominated:
	case lineReady:
		n.State = queue.Ready
	case lineFailed:
		n.State, n.Error = queue.Failed, "it could not warm up"
	default:
		return queue.Nomination{}
	}
	return n
}
