// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// The environment variables that name the files of TLS, in PEM.
const (
	EnvCert = "WEFT_TLS_CERT" // this machine's certificate
	EnvKey  = "WEFT_TLS_KEY"  // its private key
	EnvCA   = "WEFT_TLS_CA"   // certificates of those who have signed the others'
)

// ErrTLS: the files of TLS are not all named, or are of no use. No connection is made.
var ErrTLS = errors.New("bad TLS settings")

// TLSFromEnv returns how connections are encrypted, nil if they are not. Both sides have to have a certificate that one of WEFT_TLS_CA
// has signed; names in it do not matter, since a rank may be at any address and proves the job's secret besides.
func TLSFromEnv(getenv func(string) string) (*tls.Config, error) {
	cert, key, ca := getenv(EnvCert), getenv(EnvKey), getenv(EnvCA)
	switch {
	case cert == "" && key == "" && ca == "":
		return nil, nil
	case cert == "" || key == "" || ca == "":
		return nil, fmt.Errorf("%w: %s=%q, %s=%q, %s=%q; it takes all three files, or none", ErrTLS, EnvCert, cert, EnvKey, key, EnvCA, ca)
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("%w: %s=%q, %s=%q: %w", ErrTLS, EnvCert, cert, EnvKey, key, err)
	}
	text, err := os.ReadFile(ca)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrTLS, EnvCA, err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%w: %s=%q: there is no certificate in it", ErrTLS, EnvCA, ca)
	}
	verify := func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 {
			return errors.New("the peer has no certificate")
		}
		between := x509.NewCertPool()
		for _, c := range s.PeerCertificates[1:] {
			between.AddCert(c)
		}
		_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
		return err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert,
		InsecureSkipVerify: true, // of names; verify does the rest, on both sides
		VerifyConnection:   verify,
	}, nil
}
