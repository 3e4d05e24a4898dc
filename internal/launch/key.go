// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Key is what launchers on several machines have in common, and others do not. A person makes it, as a file, and takes it to each machine. It
// may serve many jobs: the secret of a job is made from it and from the name of the job, so nothing secret is ever sent.
type Key Secret

// String hides the key from logs.
func (k Key) String() string { return "(key)" }

// GoString hides it likewise.
func (k Key) GoString() string { return k.String() }

// secret is that of a job.
func (k *Key) secret(job string) (s Secret) {
	m := hmac.New(sha256.New, k[:])
	m.Write([]byte("weft secret of job "))
	m.Write([]byte(job))
	copy(s[:], m.Sum(nil))
	return s
}

// LoadKey reads the key in a file: 64 hexadecimal digits, which nobody but its owner may be able to
// read. If there is no such file and create is true, it is made; by way of a temporary one, whose
// path tell, if that is not nil, is called with before it is made.
func LoadKey(path string, create bool, tell func(temp string)) (*Key, error) {
	if create {
		if err := makeKey(path, tell); err != nil {
			return nil, keyError(err)
		}
	}
	s, err := readSecretFile(path)
	if err != nil {
		return nil, keyError(err)
	}
	k := Key(s)
	return &k, nil
}

// makeKey writes a key to a file, unless there is one. The file appears with all that is in it: a
// launcher that is killed leaves none that is empty.
func makeKey(path string, tell func(temp string)) error {
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return err
	}
	k, name := newSecret(), newSecret()
	temp := filepath.Join(dir, ".weft-secret-"+hex.EncodeToString(name[:8]))
	if tell != nil {
		tell(temp)
	}
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		if p := (*fs.PathError)(nil); errors.As(err, &p) {
			p.Path = path // which is the one that a person knows
		}
		return err
	}
	defer os.Remove(temp)
	_, err = f.WriteString(hex.EncodeToString(k[:]) + "\n")
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	switch err := os.Link(temp, path); {
	case err == nil, errors.Is(err, fs.ErrExist): // another launcher's
		return nil
	default: // a file system without links
		return os.Rename(temp, path)
	}
}

func keyError(err error) error {
	return &Error{Op: "secret file", Rank: -1, Err: fmt.Errorf("%w (it has 64 hexadecimal digits, and mode 0600; a launcher that listens makes it)", err)}
}
