package server

import "strings"

// warnRefused tells why a reconfig was refused: its client gets no more than a code. nil is none.
func (s *Server) warnRefused(why error) {
	if why != nil {
		s.cfg.Logger.Warn("a reconfig was refused", "reason", brief(why.Error()))
	}
}

// brief is the beginning of a text that a client may have made as long as it wants.
func brief(text string) string {
	const most = 400
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}
