//go:build robust

package autobackup

const drills = 100
