package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
)

// rootsModule contains the authorities of Mozilla's list, for the image: stores in public
// clouds are reached over TLS. It is fetched from the module proxy and verified by its sum.
const rootsModule = "golang.org/x/crypto/x509roots/fallback@v0.0.0-20261030153154-30a33513ff6d"

// rootLine matches one certificate's digest, offset and length, and the date after which it
// is not trusted, if there is one.
var rootLine = regexp.MustCompile(`sha256Hash:\s+"([0-9a-f]{64})",\s+certStartOff:\s*(\d+),\s+certLength:\s*(\d+),(?:\s+distrustAfter:\s*"([^"]+)")?`)

// roots returns the certificates in PEM.
func roots() ([]byte, error) {
	text, err := output(os.TempDir(), "go", "mod", "download", "-json", rootsModule)
	if err != nil {
		return nil, err
	}
	var module struct{ Dir string }
	if err := json.Unmarshal([]byte(text), &module); err != nil {
		return nil, err
	}
	list, err1 := os.ReadFile(filepath.Join(module.Dir, "bundle", "bundle.go"))
	all, err2 := os.ReadFile(filepath.Join(module.Dir, "bundle", "bundle.der"))
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	return rootsOf(string(list), all)
}

// rootsOf extracts the certificates from the bundle, except the ones with a date: a PEM
// file cannot say that they are valid only for older certificates.
func rootsOf(list string, all []byte) ([]byte, error) {
	var out bytes.Buffer
	for _, m := range rootLine.FindAllStringSubmatch(list, -1) {
		start, _ := strconv.Atoi(m[2]) // digits
		length, _ := strconv.Atoi(m[3])
		if start+length > len(all) {
			return nil, fmt.Errorf("%s: certificate %s is beyond its end", rootsModule, m[1])
		}
		der := all[start : start+length]
		if sum := sha256.Sum256(der); hex.EncodeToString(sum[:]) != m[1] {
			return nil, fmt.Errorf("%s: certificate %s is another one", rootsModule, m[1])
		}
		if m[4] != "" {
			continue
		}
		if err := pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: der}); err != nil {
			return nil, err
		}
	}
	if out.Len() == 0 {
		return nil, fmt.Errorf("%s has no certificates", rootsModule)
	}
	return out.Bytes(), nil
}
