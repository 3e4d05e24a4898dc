// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/internal/env"
	"weft/internal/fabric"
)

// authority makes a CA and a certificate that the CA has signed, as files.
func authority(t *testing.T) (cert, key, ca string) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		p := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(p, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return p
	}
	rootKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	root := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, &rootKey.PublicKey, rootKey)
	require.NoError(t, err)
	ownKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	own := &x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature}
	ownDER, err := x509.CreateCertificate(rand.Reader, own, root, &ownKey.PublicKey, rootKey)
	require.NoError(t, err)
	keyDER, err := x509.MarshalECPrivateKey(ownKey)
	require.NoError(t, err)
	return write("cert", "CERTIFICATE", ownDER), write("key", "EC PRIVATE KEY", keyDER), write("ca", "CERTIFICATE", rootDER)
}

// settings calls TLSFromEnvironment with these files in the environment.
func settings(t *testing.T, cert, key, ca string) (*tls.Config, error) {
	t.Setenv(env.TLSCert.Name, cert)
	t.Setenv(env.TLSKey.Name, key)
	t.Setenv(env.TLSCA.Name, ca)
	return TLSFromEnvironment()
}

func TestTLSFromEnvironment(t *testing.T) {
	conf, err := settings(t, "", "", "")
	require.NoError(t, err)
	require.Nil(t, conf)
	cert, key, ca := authority(t)
	for _, row := range [][4]string{
		{cert, key, "", "set all three files, or none"},
		{cert, "", ca, "set all three files, or none"},
		{"", key, ca, "set all three files, or none"},
		{cert, "", "", "set all three files, or none"},
		{"", key, "", "set all three files, or none"},
		{"", "", ca, "set all three files, or none"},
		{cert + "x", key, ca, "no such file"},
		{cert, ca, ca, "WEFT_TLS_KEY"},
		{cert, key, ca + "x", "no such file"},
		{cert, key, key, "there is no certificate in it"},
	} {
		_, err := settings(t, row[0], row[1], row[2])
		require.ErrorIs(t, err, ErrTLS)
		require.ErrorContains(t, err, row[3])
	}
	conf, err = settings(t, cert, key, ca)
	require.NoError(t, err)
	require.Error(t, conf.VerifyConnection(tls.ConnectionState{}), "no certificate")
	_, _, otherCA := authority(t)
	other, err := settings(t, cert, key, otherCA) // trusts another CA
	require.NoError(t, err)

	eps := openAll(t, 2, func(c *Config) { c.TLS = conf })
	cs := bindAll(eps)
	require.NoError(t, eps[0].Send(1, fabric.Frame{Data: []byte("x")}))
	eventually(t, func() bool { return cs[1].n.Load() == 1 })

	eps = openAll(t, 2, func(c *Config) {
		c.TLS = conf
		if c.Rank == 0 {
			c.TLS = other
		}
	})
	cs = bindAll(eps)
	require.NoError(t, eps[0].Send(1, fabric.Frame{Data: []byte("x")}))
	require.Equal(t, 1, <-cs[0].lost)
	require.Zero(t, cs[1].n.Load())
}

// A peer is trusted if its certificate leads to the CA, if necessary by intermediate certificates
// that the peer shows. Names and uses do not matter.
func TestTLSTrust(t *testing.T) {
	cert, key, ca := authority(t)
	conf, err := settings(t, cert, key, ca)
	require.NoError(t, err)
	read := func(file string) *x509.Certificate {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		block, _ := pem.Decode(text)
		c, err := x509.ParseCertificate(block.Bytes)
		require.NoError(t, err)
		return c
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	require.NoError(t, err)
	sign := func(serial int64, isCA bool, parent *x509.Certificate, by any, use ...x509.ExtKeyUsage) (*x509.Certificate, *ecdsa.PrivateKey) {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		require.NoError(t, err)
		tmpl := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), IsCA: isCA, BasicConstraintsValid: true,
			KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: use, Subject: pkix.Name{CommonName: fmt.Sprint(serial)}}
		der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, &k.PublicKey, by)
		require.NoError(t, err)
		c, err := x509.ParseCertificate(der)
		require.NoError(t, err)
		return c, k
	}
	root, rootKey := sign(1, true, &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "1"}}, pair.PrivateKey)
	middle, middleKey := sign(2, true, root, rootKey)
	lower, lowerKey := sign(3, true, middle, middleKey)
	leaf, _ := sign(4, false, lower, lowerKey, x509.ExtKeyUsageServerAuth)
	file := filepath.Join(t.TempDir(), "root")
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Raw}), 0o600))
	ours, err := settings(t, cert, key, file)
	require.NoError(t, err)
	for _, row := range []struct {
		conf  *tls.Config
		shown []*x509.Certificate
		ok    bool
	}{
		{conf, nil, false},
		{conf, []*x509.Certificate{read(cert)}, true},
		{conf, []*x509.Certificate{leaf, lower, middle}, false},
		{ours, []*x509.Certificate{read(cert)}, false},
		{ours, []*x509.Certificate{leaf, lower, middle}, true},
		{ours, []*x509.Certificate{leaf, middle, lower}, true},
		{ours, []*x509.Certificate{leaf, lower}, false},
		{ours, []*x509.Certificate{leaf, middle}, false},
		{ours, []*x509.Certificate{leaf}, false},
		{ours, []*x509.Certificate{middle}, true},
	} {
		err := row.conf.VerifyConnection(tls.ConnectionState{PeerCertificates: row.shown})
		require.Equal(t, row.ok, err == nil, "%d certificates: %v", len(row.shown), err)
	}
	require.EqualValues(t, tls.VersionTLS13, conf.MinVersion)
	require.Equal(t, tls.RequireAnyClientCert, conf.ClientAuth)
}

// An endpoint closes while an unproved connection is idle, and while it connects to a listener that
// does not answer. (For the race detector.)
func TestCloseWhileGreeting(t *testing.T) {
	quiet, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer quiet.Close()
	e, err := New(Config{Rank: 0, Size: 2, Secret: make([]byte, 32), TLS: testTLS(t), Linger: time.Millisecond,
		Lookup: func(context.Context, int) (string, error) { return quiet.Addr().String(), nil }})
	require.NoError(t, err)
	c := newCollect()
	bind(e, c)
	unproved, err := net.Dial("tcp", e.Addr())
	require.NoError(t, err)
	defer unproved.Close()
	require.NoError(t, e.Send(1, fabric.Frame{}))
	reached, err := quiet.Accept()
	require.NoError(t, err)
	defer reached.Close()
	_, err = io.ReadFull(reached, make([]byte, 1)) // its side of TLS has begun
	require.NoError(t, err)
	require.NoError(t, e.Close())
}
