package file

import (
	"fmt"
	"syscall"
)

// Magic numbers of linux/magic.h and fs/smb of file systems whose locks live
// on another machine.
var networkFS = map[uint32]string{
	0x6969:     "NFS",
	0xff534d42: "CIFS",
	0xfe534d42: "SMB2",
	0x517b:     "SMB",
	0x5346414f: "AFS",
	0x00c36400: "Ceph",
	0x01021997: "9P",
}

// refuseNetwork returns an error for a directory on a network file system: a
// server that restarts forgets its locks, and two would lead.
func refuseNetwork(dir string) error {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return explain("look at the file system of "+dir, err)
	}
	if name, ok := networkFS[uint32(fs.Type)]; ok {
		return fmt.Errorf("file: %s is on a network file system (%s), whose locks do not hold; "+
			"use a local directory, or a store such as zk://host:2181", dir, name)
	}
	return nil
}
