package zk

import "strconv"

// Zxid orders all transactions: the high 32 bits are the epoch of the leader
// that decided the transaction, the low 32 bits a counter that starts at 1 in
// each epoch. A standalone server stays in epoch 0. The zero Zxid precedes
// every transaction.
type Zxid int64

// NoZxid is the zxid of replies and notifications that belong to no
// transaction: unknown operations, and events produced by setWatches.
const NoZxid Zxid = -1

// MakeZxid joins an epoch and a counter.
func MakeZxid(epoch, counter uint32) Zxid { return Zxid(uint64(epoch)<<32 | uint64(counter)) }

// Epoch returns the epoch of the leader that decided z.
func (z Zxid) Epoch() uint32 { return uint32(uint64(z) >> 32) }

// Counter returns the place of z within its epoch.
func (z Zxid) Counter() uint32 { return uint32(z) }

// String prints z as ZooKeeper's tools do: 0x and lower-case hex.
func (z Zxid) String() string { return "0x" + strconv.FormatUint(uint64(z), 16) }
