//go:build !robust

package autobackup

// drills is the number of moments that are restored; `make backup-drill`
// restores more.
const drills = 10
