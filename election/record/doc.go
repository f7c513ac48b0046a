// Package record elects on any store that can compare and set one record.
//
// In goes a Store, out comes an election.Backend. All that such backends have
// in common is here: who may write what into the record, when a lease has run
// out, who is next in line, handing over, the history.
package record
