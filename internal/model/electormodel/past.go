package electormodel

import "fmt"

// past remembers what must not happen twice: it is a part that panics if it does.
type past struct {
	Token   uint64            // of the last leadership
	Granted map[uint64]string // the claim to which each token was granted
}

// led is the beginning of a leadership, and granted is a grant of the store, whether used
// or not.
type (
	led struct {
		Name  name
		Token uint64
	}
	granted struct {
		Nonce string
		Token uint64
	}
)

func (p *past) see(event any) {
	switch e := event.(type) {
	case led:
		if e.Token <= p.Token {
			panic(fmt.Sprintf("TOKENS: candidate %d leads with token %d after %d", e.Name, e.Token, p.Token))
		}
		p.Token = e.Token
	case granted:
		if other, known := p.Granted[e.Token]; known && other != e.Nonce {
			panic(fmt.Sprintf("TOKENS: %d is granted to %s and to %s", e.Token, other, e.Nonce))
		}
		p.Granted[e.Token] = e.Nonce
	}
}
