package zab

// Row is a place in the tables of table.go: what a leader, or a learner, does with
// a kind of message at a stage of their link. Proofs count which of them they met.
type Row struct {
	Leads bool // the leader's table
	Stage uint8
	Kind  Kind
}

// The names of stages, in the order of their numbers.
var (
	rowLinkStages    = [linkStages]string{"hello", "greeted", "asked", "agreed", "reading", "syncing", "synced", "serving"}
	rowLearnerStages = [learnerStages]string{
		"connecting", "greeting", "promising", "agreed", "syncing", "storing", "ready", "serving",
	}
)

// Rows returns the rows that have a handler, those of the leader first.
func Rows() []Row {
	var rows []Row
	for stage := range leaderTable {
		for kind, h := range leaderTable[stage] {
			if h != nil {
				rows = append(rows, Row{Leads: true, Stage: uint8(stage), Kind: Kind(kind)})
			}
		}
	}
	for stage := range learnerTable {
		for kind, h := range learnerTable[stage] {
			if h != nil {
				rows = append(rows, Row{Stage: uint8(stage), Kind: Kind(kind)})
			}
		}
	}
	return rows
}

// String names the row: "leader asked ACKEPOCH".
func (r Row) String() string {
	if r.Leads {
		return "leader " + rowLinkStages[r.Stage] + " " + r.Kind.String()
	}
	return "learner " + rowLearnerStages[r.Stage] + " " + r.Kind.String()
}

// Reasons returns why a role may end.
func Reasons() []Reason {
	var all []Reason
	for r := ReasonNone + 1; r < reasons; r++ {
		all = append(all, r)
	}
	return all
}
