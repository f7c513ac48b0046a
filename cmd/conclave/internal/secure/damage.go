package secure

import (
	"bytes"
	"crypto/sha1" // a JKS ends with this digest
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// damaged turns a library's panic on a damaged file into an error. Call it with defer.
func (s *Store) damaged(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%s is damaged: %v", s.Location, p)
	}
}

var errPassword = errors.New("the password does not open it, or it is damaged")

// wholeJKS compares a JKS with the digest at its end, which depends on the password.
// The library does this last, and before that allocates memory for every length that
// it finds.
func wholeJKS(content []byte, password string) error {
	at := len(content) - sha1.Size
	if at < 0 {
		return errPassword
	}
	digest := sha1.New()
	for _, b := range []byte(password) {
		digest.Write([]byte{0, b})
	}
	digest.Write([]byte("Mighty Aphrodite"))
	digest.Write(content[:at])
	if string(digest.Sum(nil)) != string(content[at:]) {
		return errPassword
	}
	return nil
}

// blocksOfPEM reads all blocks. The library skips incomplete blocks; here a
// begin or end line that belongs to no block is an error.
func blocksOfPEM(content []byte) (blocks []*pem.Block, err error) {
	for line := 1; ; {
		block, rest := pem.Decode(content)
		passed, own := content[:len(content)-len(rest)], 2
		if block == nil {
			passed, own = content, 0
		}
		if marks := marksOfPEM(passed); len(marks) > own {
			return nil, fmt.Errorf("the block of PEM at line %d is damaged or cut short: write the file again, "+
				"with the BEGIN and the END of each block on lines of their own", line+marks[0])
		}
		if block == nil {
			return blocks, nil
		}
		blocks, content, line = append(blocks, block), rest, line+bytes.Count(passed, []byte("\n"))
	}
}

// marksOfPEM returns which lines begin or end a block, counted from 0.
func marksOfPEM(content []byte) (lines []int) {
	const begin, end = "-----BEGIN ", "-----END "
	n := 0
	for line := range strings.Lines(string(content)) {
		text := strings.TrimSpace(line)
		cut := text != "" && !strings.HasSuffix(line, "\n") && (strings.HasPrefix(begin, text) || strings.HasPrefix(end, text))
		if cut || strings.HasPrefix(text, begin) || strings.HasPrefix(text, end) {
			lines = append(lines, n)
		}
		n++
	}
	return lines
}

const (
	roundsMax = 5_000_000 // of PBKDF2: as many as Java accepts in a PKCS12
	scryptMax = 1 << 19   // N*r*p of scrypt, 64 MiB: four times what OpenSSL writes
)

var (
	oidPBES2  = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 13}
	oidPBKDF2 = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 12}
	oidPBMAC1 = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 14}
	oidScrypt = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 11591, 4, 11}
)

// boundedKey checks the cost of trying a password on a PKCS8 key.
func boundedKey(der []byte) error {
	var key struct{ Algorithm pkix.AlgorithmIdentifier }
	if _, err := asn1.Unmarshal(der, &key); err != nil || !key.Algorithm.Algorithm.Equal(oidPBES2) {
		return nil // the library reports the error
	}
	return boundedWork(key.Algorithm.Parameters)
}

// boundedPKCS12 does the same for a PKCS12. The library checks this digest first, so
// everything else in the file was made by somebody who knows the password.
func boundedPKCS12(content []byte) error {
	var store struct {
		Version  int
		AuthSafe asn1.RawValue
		MAC      struct {
			Digest struct {
				Algorithm pkix.AlgorithmIdentifier
				Digest    []byte
			}
			Salt  []byte
			Count int64 `asn1:"optional,default:1"`
		} `asn1:"optional"`
	}
	if _, err := asn1.Unmarshal(content, &store); err != nil {
		return nil
	}
	if algorithm := store.MAC.Digest.Algorithm; algorithm.Algorithm.Equal(oidPBMAC1) {
		return boundedWork(algorithm.Parameters)
	}
	return boundedRounds(store.MAC.Count)
}

// boundedWork checks parameters that begin with a key derivation function (RFC 8018,
// RFC 7914).
func boundedWork(parameters asn1.RawValue) error {
	var first struct{ KDF pkix.AlgorithmIdentifier }
	if _, err := asn1.Unmarshal(parameters.FullBytes, &first); err != nil {
		return nil
	}
	text := first.KDF.Parameters.FullBytes
	switch {
	case first.KDF.Algorithm.Equal(oidPBKDF2):
		var p struct {
			Salt  []byte
			Count int64
		}
		if _, err := asn1.Unmarshal(text, &p); err != nil {
			return nil
		}
		return boundedRounds(p.Count)
	case first.KDF.Algorithm.Equal(oidScrypt):
		var p struct {
			Salt    []byte
			N, R, P int64 // whose product would wrap around where an int has 32 bits
		}
		if _, err := asn1.Unmarshal(text, &p); err != nil {
			return nil
		}
		if max(p.N, p.R, p.P) > scryptMax || p.N*p.R*p.P > scryptMax {
			return fmt.Errorf("it asks for scrypt with N=%d, r=%d, p=%d, which takes too much memory: if it is not damaged, encrypt it again", p.N, p.R, p.P)
		}
	}
	return nil
}

func boundedRounds(n int64) error {
	if n > roundsMax {
		return fmt.Errorf("it asks for %d rounds of PBKDF2, more than %d: if it is not damaged, encrypt it again", n, roundsMax)
	}
	return nil
}
