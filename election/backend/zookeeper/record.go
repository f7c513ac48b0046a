package zookeeper

import (
	"bytes"
	"encoding/json"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/queue"
	"github.com/conclave-project/conclave/zk"
)

// record is the data of an election's own znode.
type record struct {
	// Conclave is the version of this format. Data without it belongs to another program
	// and is not changed.
	Conclave int               `json:"conclave"`
	Request  *election.Request `json:"request,omitempty"`
	History  []election.Tenure `json:"history,omitempty"`
}

const recordForm = 1

func readRecord(data []byte) (record, error) {
	r := record{Conclave: recordForm}
	if len(data) == 0 {
		return r, nil
	}
	r.Conclave = 0
	if err := json.Unmarshal(data, &r); err != nil || r.Conclave != recordForm {
		return record{}, errForeign
	}
	return r, nil
}

// of returns the record of a leader. It keeps a request to this leader: the first in the
// queue can be seen to lead before the record says so.
func (r record) of(token election.Token, history []election.Tenure) record {
	if r.Request != nil && r.Request.Token != token {
		r.Request = nil
	}
	r.History = history
	return r
}

// write returns the operation that replaces the given version with this record.
func (r record) write(path string, version uint64) client.Operation {
	return client.SetOp(path, queue.Encode(r), int32(version))
}

// described is the data of a candidate's znode: its id, and after a nomination a line with
// the progress. Metadata follows unchanged. Neither ids nor these lines contain line
// breaks:
//
//	ID
//	ID \n ready
//	ID \n \n METADATA
//	ID \n ready \n METADATA
//
// A version of this package without metadata recognizes such a candidate by its id. If it
// nominates the candidate, it drops the metadata, and it would not understand an answer
// that has some: see entry.Answer and entry.describeAgain.
type described struct {
	id, state string
	metadata  []byte
}

// The texts of a nominee's line.
const (
	stateNominated = "nominated"
	stateReady     = "ready"
	stateNotReady  = "cold"
)

func describedIn(data []byte) described {
	id, rest, _ := bytes.Cut(data, []byte("\n"))
	state, metadata, _ := bytes.Cut(rest, []byte("\n"))
	return described{string(id), string(state), metadata}
}

func (d described) data() []byte {
	data := []byte(d.id)
	if d.state != "" || len(d.metadata) > 0 {
		data = append(append(data, '\n'), d.state...)
	}
	if len(d.metadata) > 0 {
		data = append(append(data, '\n'), d.metadata...)
	}
	return data
}

// nominationIn returns the nomination in the data of a candidate's znode; the zero value
// for none.
func nominationIn(data []byte, stat zk.Stat) queue.Nomination {
	n := queue.Nomination{Round: zk.Zxid(stat.Mzxid).String(), Version: uint64(stat.Version)}
	switch describedIn(data).state {
	case stateNominated:
	case stateReady:
		n.State = queue.Ready
	case stateNotReady:
		n.State, n.Error = queue.Failed, "it could not warm up"
	default:
		return queue.Nomination{}
	}
	return n
}
