// Package record elects on any store that can compare and set one record.
//
// New makes an election.Backend from a Store. The package contains what all such backends have in
// common: who may write what into the record, when a lease has expired, who the successor is,
// handing over, and the history. What always holds:
//
//	record-R1  The record changes only by compare and set. A candidate takes the election with a
//	           write that fails if the holder has renewed since it was last seen.
//	record-R2  A lease has run out when a candidate has seen the holder's Nonce and Heartbeat
//	           unchanged for the whole lease on its own clock, counted from the arrival of the
//	           answer that showed them first. The holder counts its lease from before it sent the
//	           write, so it stops earlier, as long as the clocks differ in rate by no more than
//	           Options.ClockDriftPercent of the Elector. No clock is compared with another, and
//	           the store's clock is not used: a step of any wall clock changes nothing. No
//	           Heartbeat occurs twice with one Nonce, even if the store has forgotten some.
//	record-R3  A record has one place for the successor. The process that holds it goes first when
//	           the election is vacant, and shows by a heartbeat of its own that it still waits.
//	           All others only read: a hundred candidates write no more than two do.
//	record-R4  A token is higher than the one in the record, and not less than the milliseconds
//	           since 1970 by the writer's wall clock. So it grows even if the record was deleted,
//	           or restored from an older copy, as long as the clocks of two writers differ by less
//	           than the time between one writer's grant and the other's request. If the store says
//	           that it may have forgotten grants (Incarnated), the next token is 2^32 greater than
//	           that: more than was forgotten, on clocks that differ by up to 49 days. Two cases
//	           are not covered: a restore from a copy older than the last failover, which forgets
//	           that stride too, and an election of which a store has forgotten everything, which
//	           begins again from the wall clock, below all strides. The wall clock is read with
//	           the record: if a candidate is frozen before its write, others lead, and the record
//	           is then deleted, the candidate takes the election with a token below theirs. No
//	           reading of a clock is late enough, so never delete the record of an election that
//	           has candidates.
//	record-R5  A write whose answer was lost is looked for by the claim's nonce. A claim is
//	           released only when none of its writes can take effect any more: the record has
//	           another version than the one that the write expects.
//	record-R6  If a record vanishes under a holder, or goes back to an older copy, every candidate
//	           that has seen the holder still waits until its lease has run out, because the
//	           holder finds out only with its next renewal.
//	record-R7  A grant rests on a write that takes the election and that the store has
//	           acknowledged, never on what a read shows: a store that asks replicas may show a
//	           write that was not confirmed and will be lost, and a store that has failed over may
//	           show a record that another leadership has replaced since. A claim that finds itself
//	           in the record removes itself and begins again.
//	record-R8  Every request to the store has a time limit, a quarter of the lease but not less
//	           than 500 ms and not more than 10 s: a dead connection costs a candidate that much
//	           time, but not its turn.
//	record-R9  If the store is a Teller, a candidate that has nothing to do waits on, without a
//	           read, based on what the watch has delivered. It never writes on that basis: it
//	           reads before it writes, and when the time that it was waiting for has come. News
//	           counts from its arrival, which is later than the write, and news older than what
//	           was read is ignored. A watch that is late, or loses news, makes a candidate wait
//	           for at most one more lease.
package record
