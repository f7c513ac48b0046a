package sim

import (
	"fmt"

	"github.com/conclave-project/conclave/zk"
)

// Znodes that the leader deletes on its own:
//
//	/t
//	/t/c0 ... /t/c2      containers, each with a child now and then
//	/t/l0 ... /t/l3      znodes with a TTL, which are set again now and then

func (p *program) reaped() {
	r := p.c.random
	container := fmt.Sprintf("/t/c%d", r.below(3))
	mortal := fmt.Sprintf("/t/l%d", r.below(4))
	switch pick := r.below(20); {
	case pick < 1:
		p.submit(zk.Request{Op: zk.OpCreate, Path: "/t", ACL: zk.OpenACL()})
	case pick < 4:
		p.submit(zk.Request{Op: zk.OpCreateContainer, Path: container, Data: p.data(), Mode: zk.Container, ACL: zk.OpenACL()})
	case pick < 7:
		p.submit(zk.Request{Op: zk.OpCreate2, Path: container + "/x", Data: p.data(), Mode: p.lifeOfChild(), ACL: zk.OpenACL()})
	case pick < 9:
		p.submit(zk.Request{Op: zk.OpDelete, Path: container + "/x", Version: -1})
	case pick < 12:
		ttl := zk.Request{Op: zk.OpCreateTTL, Path: mortal, Data: p.data(), Mode: zk.PersistentTTL, TTL: r.between(50, 2000), ACL: zk.OpenACL()}
		p.submit(ttl)
	case pick < 15:
		p.submit(zk.Request{Op: zk.OpSetData, Path: mortal, Data: p.data(), Version: -1})
	case pick < 16:
		p.submit(zk.Request{Op: zk.OpCreate, Path: mortal + "/x", ACL: zk.OpenACL()})
	case pick < 17:
		p.submit(zk.Request{Op: zk.OpDelete, Path: mortal + "/x", Version: -1})
	case pick < 18:
		p.submit(zk.Request{Op: zk.OpGetChildren2, Path: "/t", Watch: r.oneIn(2)})
	default:
		p.submit(zk.Request{Op: zk.OpExists, Path: []string{container, mortal}[r.below(2)], Watch: r.oneIn(2)})
	}
}
