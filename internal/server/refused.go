package server

import "strings"

// warnRefused logs why a reconfig was refused, because its client gets only a code. nil means
// that none was refused.
func (s *Server) warnRefused(why error) {
	if why != nil {
		s.cfg.Logger.Warn("a reconfig was refused", "reason", brief(why.Error()))
	}
}

// brief returns the beginning of a text that a client may have made arbitrarily long.
func brief(text string) string {
	const most = 400
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}
