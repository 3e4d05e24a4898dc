// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package nam

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"weft/nam/internal/store"
)

// EnvDir is the environment variable that names the default store directory.
const EnvDir = "WEFT_NAM_DIR"

// DefaultDir is the directory that Open("") opens: $WEFT_NAM_DIR, or else weft/nam in the user's
// cache directory, or else, for a user without one, a directory of that user in the system's place
// for temporary files.
func DefaultDir() string {
	if dir := os.Getenv(EnvDir); dir != "" {
		return dir
	}
	base, own := ownDirs()
	return filepath.Join(append([]string{base}, own...)...)
}

// ownDirs is the default directory where the environment names none: one that weft did not make,
// and those below it that weft makes.
func ownDirs() (base string, own []string) {
	if dir, err := os.UserCacheDir(); err == nil {
		return dir, []string{"weft", "nam"}
	}
	return os.TempDir(), []string{"weft-" + strconv.Itoa(os.Geteuid()), "nam"}
}

// checkDefaultDir refuses a default directory that another user has made or may change. Nobody has
// named it, and in the place for temporary files everybody can guess it: whoever makes it first
// would read and change what this user's programs keep. With make it makes what is missing, one
// directory after the other: MkdirAll would go through a symbolic link of somebody else's.
func checkDefaultDir(makeIt bool) error {
	if os.Getenv(EnvDir) != "" {
		return nil // somebody has named it, and may have reasons
	}
	dir, own := ownDirs()
	if makeIt {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("%w: %w", ErrAccess, err)
		}
	}
	for _, name := range own {
		dir = filepath.Join(dir, name)
		if makeIt {
			// What exists, of whatever kind, is looked at below; a file system that cannot be
			// written is the store's affair.
			_ = os.Mkdir(dir, 0o700)
		}
		if err := checkOwned(dir); errors.Is(err, fs.ErrNotExist) {
			return nil // and so has nothing that could be wrong
		} else if err != nil {
			return err
		}
	}
	return nil
}

// checkOwned says whether dir is a directory of this user that nobody else may write. A symbolic
// link to one is fine if it is this user's too.
func checkOwned(dir string) error {
	me := uint32(os.Geteuid())
	for _, look := range []func(string) (fs.FileInfo, error){os.Lstat, os.Stat} {
		st, err := look(dir)
		if err != nil {
			return err
		}
		link := st.Mode()&fs.ModeSymlink != 0
		problem := ""
		switch owner, ok := store.Owner(st); {
		case ok && owner != me:
			problem = fmt.Sprintf("it belongs to user %d, and this is user %d", owner, me)
		case !link && !st.IsDir():
			problem = "it is not a directory"
		case !link && st.Mode().Perm()&0o022 != 0:
			problem = fmt.Sprintf("its mode %#o lets other users write", st.Mode().Perm())
		}
		if problem != "" {
			return fmt.Errorf("%w: the default directory %s is not safe to use: %s; name another with %s",
				ErrAccess, dir, problem, EnvDir)
		}
	}
	return nil
}
