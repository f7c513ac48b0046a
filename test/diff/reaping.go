//go:build linux

package main

import (
	"context"
	"fmt"

	"github.com/conclave-project/conclave/internal/jute"
	"github.com/conclave-project/conclave/test/servers"
	"github.com/conclave-project/conclave/zk"
)

// reapMs is how often the servers of the reaping script look for containers and TTL znodes
// to delete. It is shorter than quietAfter, and longer than a disk takes to write, because
// otherwise a deletion in progress would be tried again.
const reapMs = 500

// reaping returns a script in which containers and TTL znodes are deleted, one at a time
// and watched by another session. The server chooses when to delete, so random scripts
// cannot contain this.
func reaping() *script {
	s := &script{steps: []step{
		{kind: stepConnect, conn: 0, timeoutMs: sessionTimeoutMs},
		{kind: stepConnect, conn: 1, timeoutMs: sessionTimeoutMs},
		{kind: stepRequest, conn: 1, op: zk.OpAddWatch, text: "addWatch / recursive",
			body: jute.AppendInt(jute.AppendString(nil, "/"), 1)},
	}}
	do := func(steps ...step) {
		for _, one := range steps {
			s.steps = append(s.steps, request(one, zk.Xid(len(s.steps))))
		}
		// The result is read after its events.
		look := request(pathStep(zk.OpGetChildren2, "/", []byte{0}), 0)
		look.conn = 1
		s.steps = append(s.steps, step{kind: stepQuiesce}, look)
	}
	version := u32(-1)
	do(createStep(zk.OpCreateContainer, "/used", nil, openACL, 4, 0),
		createStep(zk.OpCreate, "/used/child", nil, openACL, 0, 0), pathStep(zk.OpDelete, "/used/child", version))
	do(createStep(zk.OpCreateContainer, "/unused", nil, openACL, 4, 0))
	do(createStep(zk.OpCreateTTL, "/short", []byte("x"), openACL, 5, 100))
	do(createStep(zk.OpCreateTTL, "/long", []byte("x"), openACL, 5, 600_000))
	do(createStep(zk.OpCreateTTL, "/parent-", nil, openACL, 6, 100),
		createStep(zk.OpCreate, "/parent-0000000004/child", nil, openACL, 1, 0))
	do(pathStep(zk.OpDelete, "/parent-0000000004/child", version))
	do(createStep(zk.OpCreateContainer, "/locked", nil, aclList{entry(1, "world", "anyone")}, 4, 0),
		createStep(zk.OpCreate, "/locked/child", nil, openACL, 0, 0))
	return s
}

// checkReaping plays the reaping script on both kinds.
func checkReaping(ctx context.Context, kinds [2]servers.Kind) error {
	p, err := newPair(ctx, kinds, reapMs)
	if err != nil {
		return err
	}
	defer p.stop()
	s := reaping()
	left, right, err := p.play(s, nil)
	if err != nil {
		return fmt.Errorf("reaping: %w", err)
	}
	if at := firstDifference(left, right); at >= 0 {
		return fmt.Errorf("diff: reaping differs at step %d: %s\n%s", at, s.at(at), describe(left, right, at, p.names))
	}
	fmt.Printf("reaping of containers and TTL znodes: equal\n")
	return nil
}
