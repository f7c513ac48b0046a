package sim

import (
	"encoding/binary"
	"fmt"

	"github.com/conclave-project/conclave/internal/adler"
	"github.com/conclave-project/conclave/zk"
)

// Data that must not mislead the recovery of a log: zeros, as a crash leaves them in place
// of sectors, and bytes that look like records of a log.
//
//	/z0, /z1
const deceptive = 2

func (p *program) bytes() {
	r := p.c.random
	path := fmt.Sprintf("/z%d", r.below(deceptive))
	switch pick := r.below(10); {
	case pick < 1:
		p.submit(zk.Request{Op: zk.OpCreate, Path: path, Data: p.data(), ACL: zk.OpenACL()})
	case pick < 4:
		p.submit(zk.Request{Op: zk.OpSetData, Path: path, Data: append(p.data(), make([]byte, r.below(2500))...), Version: -1})
	case pick < 7:
		p.submit(zk.Request{Op: zk.OpSetData, Path: path, Data: append(p.data(), p.records(r.below(2500))...), Version: -1})
	default:
		p.submit(zk.Request{Op: zk.OpGetData, Path: path})
	}
}

// records returns bytes that look like records of a log, with zxids close to the current
// ones.
func (p *program) records(size int) []byte {
	var data []byte
	zxid := p.c.machine.LastZxid()
	for len(data) < size {
		zxid++
		payload := make([]byte, 32)
		binary.BigEndian.PutUint64(payload[12:], uint64(zxid))
		data = binary.BigEndian.AppendUint64(data, uint64(adler.Checksum(payload)))
		data = binary.BigEndian.AppendUint32(data, uint32(len(payload)))
		data = append(append(data, payload...), 0x42)
	}
	return data
}
