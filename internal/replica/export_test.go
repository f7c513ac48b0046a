package replica

// Fuzzy reports whether the tree may be ahead of its zxid: a leader's snapshot was
// taken while transactions went on.
func (r *Replica) Fuzzy() bool { return r.trust.tree == likenessFuzzy }

// Fetched is the number of paths for which the tree has fetched ahead.
func (r *Replica) Fetched() int { return r.fetcher.Total() }
