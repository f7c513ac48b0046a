package raft

import (
	"slices"

	"github.com/conclave-project/conclave/algo"
)

// onReconfigure begins a change of members, or drops it: there is one change at a time, and
// by at most one member.
func (m *Machine) onReconfigure(nowMs int64, members []algo.ID) {
	if !m.leads || m.pending != nil || !oneApart(m.state.Config.Members, members) {
		return
	}
	m.pending = slices.Clone(members)
	if m.state.Config.Term != m.state.Term {
		m.install(nowMs, m.state.Config.Version, m.state.Config.Members)
	}
	m.commitConfig(nowMs)
}

// oneApart reports whether all majorities of both sets meet, by the rule that at most one
// member was added or removed.
func oneApart(from, to []algo.ID) bool {
	if len(to) == 0 || len(to) > algo.MembersMax {
		return false
	}
	apart := 0
	for i, id := range to {
		if slices.Contains(to[:i], id) {
			return false
		}
		if !slices.Contains(from, id) {
			apart++
		}
	}
	for _, id := range from {
		if !slices.Contains(to, id) {
			apart++
		}
	}
	return apart <= 1
}

// install makes a configuration of this leader's term and spreads it.
func (m *Machine) install(nowMs int64, version uint64, members []algo.ID) {
	m.state.Config = algo.Config{Term: m.state.Term, Version: version, Members: members}
	m.committed = false
	m.persist()
	m.heartbeat(nowMs)
}

// commitConfig continues when a quorum has the present configuration (raft-T5). Each member
// has reported it in answer to a heartbeat, so its promise is newer than the configuration.
func (m *Machine) commitConfig(nowMs int64) {
	if m.role != leader || m.state.Config.Term != m.state.Term || m.committed && m.pending == nil {
		return
	}
	have := 0
	for _, id := range m.state.Config.Members {
		if id == m.cfg.ID || m.adopted[id] == nameOf(m.state.Config) {
			have++
		}
	}
	if have < m.quorum() {
		return
	}
	if m.pending != nil {
		members := m.pending
		m.pending = nil
		m.install(nowMs, m.state.Config.Version+1, members)
		m.commitConfig(nowMs) // a quorum of one
		return
	}
	m.committed = true
	config := m.state.Config
	config.Members = slices.Clone(config.Members)
	m.emit(algo.Reconfigured{Config: config})
}
