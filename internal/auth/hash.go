package auth

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha3"
	"crypto/sha512"
	"hash"
)

// hashes are the digest algorithms by their names in Java.
var hashes = map[string]func() hash.Hash{
	"MD5":  md5.New,
	"SHA1": sha1.New, "SHA-1": sha1.New, "SHA": sha1.New,
	"SHA-224": sha256.New224, "SHA-256": sha256.New, "SHA-384": sha512.New384, "SHA-512": sha512.New,
	"SHA-512/224": sha512.New512_224, "SHA-512/256": sha512.New512_256,
	"SHA3-224": func() hash.Hash { return sha3.New224() }, "SHA3-256": func() hash.Hash { return sha3.New256() },
	"SHA3-384": func() hash.Hash { return sha3.New384() }, "SHA3-512": func() hash.Hash { return sha3.New512() },
}

// ValidHash reports whether name is a known algorithm.
func ValidHash(name string) bool { return name == "" || hashes[name] != nil }

func newHash(name string) hash.Hash {
	if make := hashes[name]; make != nil {
		return make()
	}
	return sha1.New()
}
