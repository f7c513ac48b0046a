package secure

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pavlo-v-chernykh/keystore-go/v4"
	"github.com/youmark/pkcs8"
	"software.sslmate.com/src/go-pkcs12"
)

// storeBytesMax is the largest file that is accepted as a store.
const storeBytesMax = 16 << 20

// content reads a store and its password.
func (s *Store) content() (content []byte, password string, err error) {
	password = s.Password
	if s.PasswordPath != "" {
		secret, err := readFile(s.PasswordPath)
		if err != nil {
			return nil, "", fmt.Errorf("read the password: %w", err)
		}
		password = strings.TrimRight(string(secret), "\r\n")
	}
	if content, err = readFile(s.Location); err != nil || s.KeyLocation == "" {
		return content, password, err
	}
	key, err := readFile(s.KeyLocation)
	if err != nil {
		return nil, "", err
	}
	if _, err := blocksOfPEM(key); err != nil {
		return nil, "", fmt.Errorf("%s: %w", s.KeyLocation, err)
	}
	if _, err := blocksOfPEM(content); err != nil { // the errors below would not name the lines
		return nil, "", fmt.Errorf("%s: %w", s.Location, err)
	}
	return slices.Concat(key, []byte("\n"), content), password, nil
}

func readFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > storeBytesMax {
		return nil, fmt.Errorf("%s is not a file of at most %d bytes", name, storeBytesMax)
	}
	return os.ReadFile(name)
}

// form returns the format of a store: PEM, JKS or PKCS12.
func (s *Store) form(content []byte) (string, error) {
	form := strings.ToUpper(s.Type)
	if form == "" {
		switch strings.ToLower(filepath.Ext(s.Location)) {
		case ".pem":
			form = "PEM"
		case ".jks":
			form = "JKS"
		case ".p12":
			form = "PKCS12"
		case ".bcfks":
			form = "BCFKS"
		default:
			return "", fmt.Errorf("%s: its name does not say its type: name it .pem, .jks or .p12, or set the type", s.Location)
		}
	}
	switch form {
	case "PEM":
		return form, nil
	case "JKS", "PKCS12":
		// Java accepts both formats under either name, and keytool has written PKCS12 since
		// Java 9.
		if bytes.HasPrefix(content, []byte{0xFE, 0xED, 0xFE, 0xED}) {
			return "JKS", nil
		}
		return "PKCS12", nil
	case "BCFKS":
		return "", fmt.Errorf("%s: stores of type BCFKS are not read: convert it with %s", s.Location, s.convert())
	}
	return "", fmt.Errorf("%s: stores of type %q are unknown: use PEM, JKS or PKCS12", s.Location, s.Type)
}

// convert returns the command that converts a BCFKS store to PKCS12. Java needs an
// additional provider to read BCFKS, which a machine with such stores has. keytool asks for
// the password of the new store.
func (s *Store) convert() string {
	return fmt.Sprintf("keytool -importkeystore -srckeystore %s -srcstoretype BCFKS -destkeystore %s.p12 -deststoretype PKCS12 "+
		"-providerclass org.bouncycastle.jcajce.provider.BouncyCastleFipsProvider -providerpath bc-fips.jar, and name that file here",
		s.Location, strings.TrimSuffix(s.Location, filepath.Ext(s.Location)))
}

// keys reads the private keys of a key store with their certificates.
func (s *Store) keys() (keys []tls.Certificate, err error) {
	defer s.damaged(&err)
	content, password, err := s.content()
	if err != nil {
		return nil, err
	}
	form, err := s.form(content)
	if err != nil {
		return nil, err
	}
	switch form {
	case "PEM":
		keys, err = keysOfPEM(content, password)
	case "JKS":
		keys, err = keysOfJKS(content, password)
	case "PKCS12":
		keys, err = keysOfPKCS12(content, password)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Location, err)
	}
	for i := range keys {
		if err := fits(&keys[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Location, err)
		}
	}
	return keys, nil
}

// fits parses the certificate and compares it with the key.
func fits(c *tls.Certificate) error {
	leaf, err := x509.ParseCertificate(c.Certificate[0])
	if err != nil {
		return err
	}
	signer, ok := c.PrivateKey.(crypto.Signer)
	if !ok {
		return errors.New("its private key is of a kind that cannot sign")
	}
	public, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(leaf.PublicKey) {
		return errors.New("its private key is not that of its first certificate")
	}
	c.Leaf = leaf
	return nil
}

func keysOfPEM(content []byte, password string) ([]tls.Certificate, error) {
	blocks, err := blocksOfPEM(content)
	if err != nil {
		return nil, err
	}
	var c tls.Certificate
	for _, block := range blocks {
		switch {
		case block.Type == "CERTIFICATE" || block.Type == "X509 CERTIFICATE":
			c.Certificate = append(c.Certificate, block.Bytes)
		case strings.HasSuffix(block.Type, "PRIVATE KEY") && c.PrivateKey == nil:
			key, err := privateKey(block, password)
			if err != nil {
				return nil, err
			}
			c.PrivateKey = key
		}
	}
	switch {
	case c.PrivateKey == nil:
		return nil, errors.New("there is no private key in it")
	case len(c.Certificate) == 0:
		return nil, errors.New("there is no certificate in it: it must be in the same file as the key")
	}
	return []tls.Certificate{c}, nil
}

func privateKey(block *pem.Block, password string) (crypto.PrivateKey, error) {
	switch block.Type {
	case "RSA PRIVATE KEY":
		return x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		return x509.ParseECPrivateKey(block.Bytes)
	case "ENCRYPTED PRIVATE KEY":
		if err := boundedKey(block.Bytes); err != nil {
			return nil, err
		}
		key, err := pkcs8.ParsePKCS8PrivateKey(block.Bytes, []byte(password))
		if err != nil {
			return nil, fmt.Errorf("the password does not open its private key: %w", err)
		}
		return key, nil
	}
	return x509.ParsePKCS8PrivateKey(block.Bytes)
}

func openJKS(content []byte, password string) (keystore.KeyStore, []string, error) {
	store := keystore.New()
	if err := wholeJKS(content, password); err != nil {
		return store, nil, err
	}
	if err := store.Load(bytes.NewReader(content), []byte(password)); err != nil {
		return store, nil, err
	}
	aliases := store.Aliases()
	slices.Sort(aliases)
	return store, aliases, nil
}

func keysOfJKS(content []byte, password string) ([]tls.Certificate, error) {
	store, aliases, err := openJKS(content, password)
	if err != nil {
		return nil, err
	}
	var keys []tls.Certificate
	for _, alias := range aliases {
		if !store.IsPrivateKeyEntry(alias) {
			continue
		}
		entry, err := store.GetPrivateKeyEntry(alias, []byte(password))
		if err != nil {
			return nil, fmt.Errorf("the password of the store does not open the key %s: %w", alias, err)
		}
		c := tls.Certificate{}
		if c.PrivateKey, err = x509.ParsePKCS8PrivateKey(entry.PrivateKey); err != nil {
			return nil, err
		}
		for _, certificate := range entry.CertificateChain {
			c.Certificate = append(c.Certificate, certificate.Content)
		}
		if len(c.Certificate) > 0 {
			keys = append(keys, c)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("there is no private key with a certificate in it")
	}
	return keys, nil
}

func keysOfPKCS12(content []byte, password string) ([]tls.Certificate, error) {
	if err := boundedPKCS12(content); err != nil {
		return nil, err
	}
	key, leaf, authorities, err := pkcs12.DecodeChain(content, password)
	if err != nil {
		return nil, err
	}
	c := tls.Certificate{PrivateKey: key, Certificate: [][]byte{leaf.Raw}}
	for _, authority := range authorities {
		c.Certificate = append(c.Certificate, authority.Raw)
	}
	return []tls.Certificate{c}, nil
}

// authorities reads the certificates of a trust store.
func (s *Store) authorities() (all []*x509.Certificate, err error) {
	defer s.damaged(&err)
	content, password, err := s.content()
	if err != nil {
		return nil, err
	}
	form, err := s.form(content)
	if err != nil {
		return nil, err
	}
	switch form {
	case "PEM":
		all, err = authoritiesOfPEM(content)
	case "JKS":
		all, err = authoritiesOfJKS(content, password)
	case "PKCS12":
		all, err = authoritiesOfPKCS12(content, password)
	}
	if err == nil && len(all) == 0 {
		err = errors.New("there is no certificate in it")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Location, err)
	}
	return all, nil
}

func authoritiesOfPEM(content []byte) (all []*x509.Certificate, err error) {
	blocks, err := blocksOfPEM(content)
	if err != nil {
		return nil, err
	}
	for _, block := range blocks {
		if block.Type != "CERTIFICATE" && block.Type != "X509 CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

func authoritiesOfJKS(content []byte, password string) (all []*x509.Certificate, err error) {
	store, aliases, err := openJKS(content, password)
	if err != nil {
		return nil, err
	}
	for _, alias := range aliases {
		if !store.IsTrustedCertificateEntry(alias) {
			continue
		}
		entry, err := store.GetTrustedCertificateEntry(alias)
		if err != nil {
			return nil, err
		}
		c, err := x509.ParseCertificate(entry.Certificate.Content)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

func authoritiesOfPKCS12(content []byte, password string) ([]*x509.Certificate, error) {
	if err := boundedPKCS12(content); err != nil {
		return nil, err
	}
	return pkcs12.DecodeTrustStore(content, password)
}
