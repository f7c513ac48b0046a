package zk

// Perms is a set of permission bits. Bits outside PermAll are stored as sent.
type Perms int32

// The permission bits.
const (
	PermRead   Perms = 1
	PermWrite  Perms = 2
	PermCreate Perms = 4
	PermDelete Perms = 8
	PermAdmin  Perms = 16
	PermAll    Perms = 31
)

// Identity is a name that a connection has proved, or that an ACL grants to: a scheme (world, ip,
// digest, x509, sasl, super) and an id in that scheme's form.
type Identity struct {
	Scheme string
	ID     string
}

// ACL is one entry of a znode's access control list.
type ACL struct {
	Perms Perms
	Identity
}

// OpenACL lets everybody do everything.
func OpenACL() []ACL { return []ACL{{PermAll, Identity{"world", "anyone"}}} }

// ReadACL lets everybody read.
func ReadACL() []ACL { return []ACL{{PermRead, Identity{"world", "anyone"}}} }

// CreatorACL allows everything to the identities that the creating connection has proved.
func CreatorACL() []ACL { return []ACL{{PermAll, Identity{"auth", ""}}} }
