// Package record elects on any store that can compare and set one record.
//
// In goes a Store, out comes an election.Backend. All that such backends have
// in common is here: who may write what into the record, when a lease has run
// out, who is the successor, handing over, the history. What always holds:
//
//	record-R1  The record changes by compare and set alone. A candidate takes
//	           the election with a write that fails if the holder has
//	           renewed since it was last seen.
//	record-R2  A lease has run out when a candidate has seen the holder's Nonce
//	           and Heartbeat unchanged for the whole lease on its own clock,
//	           counted from the arrival of the answer that showed them first.
//	           The holder counts its lease from before it sent the write, so it
//	           stops earlier, as long as the clocks differ in rate by no more
//	           than Options.ClockDriftPercent of the Elector. No clock is compared with
//	           another, and the store's is not asked: a step of any wall clock
//	           changes nothing. No Heartbeat comes twice with one Nonce, also
//	           where the store has forgotten some.
//	record-R3  A record has one place for the successor. A process that holds it
//	           goes first when the election is vacant, and shows by a heartbeat
//	           of its own that it still waits. All others only read: a hundred
//	           candidates write no more than two.
//	record-R4  A token is higher than the one in the record, and not less than
//	           the milliseconds of the writer's wall clock since 1970: it grows
//	           also when the record was deleted, or restored from an older copy,
//	           while the clocks of two writers differ by less than the time
//	           between the one's grant and the other's request. Where the store
//	           says that it may have forgotten grants (Incarnated), the next
//	           token is 2^32 greater than that: more than was forgotten, on
//	           clocks that differ by up to 49 days. What is not covered: a
//	           restore from a copy older than the last failover, which forgets
//	           that stride too, and an election of which a store has forgotten
//	           everything, which begins again from the wall clock, below all
//	           strides. The wall clock is read with the record: a candidate that
//	           is frozen before its write, while others lead and the record is
//	           then deleted, takes the election with a token below theirs. No
//	           look at a clock is late enough: delete no record of an election
//	           that has candidates.
//	record-R5  A write whose answer was lost is looked for by the claim's nonce.
//	           A claim is released only when no write of it can take effect any
//	           more: the record has another version than the one that write
//	           expects.
//	record-R6  A record that vanishes under a holder, or is taken back to an
//	           older copy, hurries nobody who has seen the holder: its lease is
//	           waited out, because it finds out with its next renewal only.
//	record-R7  A grant rests on a write that takes the election and that the
//	           store has acknowledged, never on what a read shows: a store that
//	           asks replicas may show a write that it did not get confirmed, and
//	           will lose, and one that has failed over may show what another
//	           leadership has replaced since. A claim that finds itself in the
//	           record takes itself out, and begins again.
//	record-R8  Every request to the store has a time limit, a quarter of the
//	           lease but not less than 500 ms and not more than 10 s: a dead
//	           connection costs a candidate that much and not its turn.
//	record-R9  A candidate that has nothing to do waits on by what the watch has
//	           told of the record, without a read, where the store is a Teller.
//	           Nothing is written by it: a candidate reads before it writes, and
//	           when the time has come that it was waiting for. What is told counts
//	           from its arrival, which is later than the write, and nothing that
//	           is older than what was read: a watch that is late, or loses what
//	           it should tell, makes a candidate wait for a lease more at most.
package record
