package zoocfg

import (
	"fmt"
	"io"

	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/vfs"
)

// oracleKey names the file that tells this server whether it may continue without the other
// server.
const oracleKey = "oraclePath"

// askOracle makes the server ask the oracle if the ensemble has two participants with equal
// weights, and reports whether it does.
func (r *reader) askOracle(c *ensemble.Config) bool {
	switch participants := len(c.Participants()); {
	case participants != 2:
		r.missing(oracleKey, fmt.Sprintf("is for two participants, one of which may continue alone, but here are %d: leave it out", participants))
		return false
	case c.Groups != nil || len(c.Weights) > 0:
		r.missing(oracleKey, "is for two participants whose votes are worth the same, without groups and weights")
		return false
	}
	fsys, file := r.fsys, r.oracle
	r.out.Server.Oracle = func() bool { return saysAlone(fsys, file) }
	return true
}

// saysAlone reports whether a file begins with a 1, which is what Apache's QuorumOracleMaj
// looks for. It returns false for a file that cannot be read.
func saysAlone(fsys vfs.FS, file string) bool {
	f, err := fsys.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	var first [1]byte
	_, err = io.ReadFull(f, first[:])
	return err == nil && first[0] == '1'
}
