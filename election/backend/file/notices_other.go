//go:build !linux

package file

// notices do not exist on this system; all waiters poll.
type notices struct{}

func openNotices([]string, func()) *notices { return nil }

func (*notices) alive() bool { return false }

func (*notices) close() {}
