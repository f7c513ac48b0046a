//go:build !linux

package server

// poller waits for no connection here: each that is idle has a goroutine that waits.
type poller struct{}

func (p *poller) watch(*conn) bool { return false }

func (p *poller) close() {}

func (s *Server) pollIdle() {}
