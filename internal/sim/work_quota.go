package sim

import (
	"bytes"
	"fmt"

	"github.com/conclave-project/conclave/zk"
)

// Directories with quotas, which are set, changed and removed, and children with data of
// many lengths. Hard limits are enforced:
//
//	/y0, /y1
//	/yN/a0 ... /yN/a5
const limited = 2

func (p *program) quota() {
	r := p.c.random
	dir := fmt.Sprintf("/y%d", r.below(limited))
	child := fmt.Sprintf("%s/a%d", dir, r.below(6))
	switch pick := r.below(20); {
	case pick < 2:
		p.submit(zk.Request{Op: zk.OpCreate, Path: dir, Data: p.data(), ACL: zk.OpenACL()})
	case pick < 4:
		p.setQuota(dir)
	case pick < 5:
		p.submit(zk.Request{Op: zk.OpSetData, Path: zk.QuotaPath + dir + "/zookeeper_limits", Data: p.limits(), Version: -1})
	case pick < 6 && r.oneIn(2):
		p.submit(zk.Request{Op: zk.OpMulti, Ops: []zk.Request{
			{Op: zk.OpDelete, Path: zk.QuotaPath + dir + "/zookeeper_limits", Version: -1},
			{Op: zk.OpDelete, Path: zk.QuotaPath + dir + "/zookeeper_stats", Version: -1},
			{Op: zk.OpDelete, Path: zk.QuotaPath + dir, Version: -1},
		}})
	case pick < 8:
		p.submit(zk.Request{Op: zk.OpGetData, Path: zk.QuotaPath + dir + "/zookeeper_stats"})
	case pick < 13:
		p.submit(zk.Request{Op: zk.OpCreate2, Path: child, Data: p.long(), Mode: p.lifeOfChild(), ACL: zk.OpenACL()})
	case pick < 16:
		p.submit(zk.Request{Op: zk.OpSetData, Path: child, Data: p.long(), Version: -1})
	default:
		p.submit(zk.Request{Op: zk.OpDelete, Path: child, Version: -1})
	}
}

// setQuota creates the znodes of a quota, as every client program does.
func (p *program) setQuota(dir string) {
	p.submit(zk.Request{Op: zk.OpMulti, Ops: []zk.Request{
		{Op: zk.OpCreate, Path: zk.QuotaPath + dir, ACL: zk.OpenACL()},
		{Op: zk.OpCreate, Path: zk.QuotaPath + dir + "/zookeeper_limits", Data: p.limits(), ACL: zk.OpenACL()},
		{Op: zk.OpCreate, Path: zk.QuotaPath + dir + "/zookeeper_stats", Data: []byte("count=0,bytes=0"), ACL: zk.OpenACL()},
	}})
}

// limits returns soft limits, hard limits, or both.
func (p *program) limits() []byte {
	r := p.c.random
	text := fmt.Appendf(nil, "count=%d,bytes=%d", r.below(6), r.below(300))
	if r.oneIn(4) {
		return text
	}
	return fmt.Appendf(text, "=;byteHardLimit=%d;countHardLimit=%d", 20+r.below(300), 1+r.below(6))
}

// long returns data of a random length.
func (p *program) long() []byte {
	return append(p.data(), bytes.Repeat([]byte("."), p.c.random.below(80))...)
}
