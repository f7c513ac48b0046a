//go:build !robust

package autobackup

// drills is how many moments are restored; `make backup-drill` restores more.
const drills = 10
