//go:build !linux

package server

// poller cannot wait for connections on this system: each idle one has a goroutine that waits.
type poller struct{}

func (p *poller) watch(*conn) bool { return false }

func (p *poller) close() {}

func (s *Server) pollIdle() {}
