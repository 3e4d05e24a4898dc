// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package powerloss computes, for tests, what a disk may have of a directory when the machine
// stops. A Disk intercepts a store's calls of the operating system (Config.System). It reads the
// files before and after each call, so it also sees what was written through mappings. It logs what
// has changed and what was forced to the disk. States yields the possible contents of the disk
// after each prefix of the log: everything that was forced, and any part of the rest.
//
// The model assumes no more than POSIX: a file's directory entry is on the disk when its directory
// was forced, its bytes when the file was; a page is written as a whole; a failed force has lost
// the pages.
package powerloss

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
)

const page = 4096

// Disk logs the changes of one directory.
type Disk struct {
	root string
	// Fail, if set, is called for each call. If it returns an error, the call is not made.
	Fail func(op, path, site string) error

	mu    sync.Mutex
	files map[uint64]*file             // guarded by mu; by inode, including removed files
	dirs  map[string]map[string]uint64 // guarded by mu; entries by directory; inode 0: a directory
	log   []change                     // guarded by mu
	// guarded by mu; the changes before this position were on the disk at the start
	start int
}

// file is kept open, so that its inode is not reused.
type file struct {
	f    *os.File
	data []byte
}

// change is one change, or one force.
type change struct {
	ino     uint64
	dir     string
	entries map[string]int64 // of dir: name → inode, 0: a directory, -1: removed
	at      int64            // offset of data
	data    []byte           // one page; nil: no write
	size    int64            // -1: no change of size
	force   bool             // forces ino from at to end, or dir
	end     int64
	lost    bool   // the force failed
	site    string // of a force: the function that made it
}

// New begins to log a directory. Its present contents are on the disk.
func New(root string) (*Disk, error) {
	d := &Disk{root: root, files: make(map[uint64]*file), dirs: make(map[string]map[string]uint64)}
	err := d.scan()
	d.start = len(d.log)
	return d, err
}

// Close closes the files.
func (d *Disk) Close() {
	for _, f := range d.files {
		f.f.Close()
	}
}

// Call is the value of Config.System.
func (d *Disk) Call(op, path string, off, n int, call func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	site := Caller()
	if err := d.scan(); err != nil {
		return err
	}
	forces := op == "syncFile" || op == "syncRange" || op == "commit"
	if d.Fail != nil {
		if err := d.Fail(op, path, site); err != nil {
			if forces && op != "commit" {
				d.force(path, off, n, op, site, true)
			}
			return err
		}
	}
	from := len(d.log)
	if !forces || op == "commit" {
		err := call()
		if lerr := d.scan(); lerr != nil || err != nil || !forces {
			return cmp.Or(lerr, err)
		}
		// A commit writes its pages first. When they are on the disk, it writes one of the first
		// two pages, the metas.
		written := slices.Clone(d.log[from:])
		d.log = d.log[:from]
		for _, meta := range []bool{false, true} {
			for _, e := range written {
				if meta == (e.data != nil && e.at < 2*page) {
					d.log = append(d.log, e)
				}
			}
			d.force(path, 0, 0, op, site, false)
		}
		return nil
	}
	if err := call(); err != nil {
		return err
	}
	d.force(path, off, n, op, site, false) // forces what was written before the call
	return d.scan()
}

// Mark logs what was written through mappings, and returns the position in the log.
func (d *Disk) Mark() (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.scan()
	return len(d.log), err
}

// Start is the position in the log before the first change.
func (d *Disk) Start() int { return d.start }

// Caller returns the store's function that makes the present call, without the helpers in wrappers.
// Preconditions: called by Config.System.
func Caller() string {
	var pcs [24]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for {
		f, more := frames.Next()
		// A closure may be inlined elsewhere: use the function that it is part of.
		name, _, _ := strings.Cut(f.Function[strings.LastIndex(f.Function, ".(")+1:], ".func")
		name = name[strings.LastIndex(name, "/")+1:]
		if _, method, ok := strings.Cut(name, ")."); ok {
			name, _, _ = strings.Cut(method, ".")
		}
		if !more || filepath.Base(f.File) != "system.go" && !slices.Contains(wrappers, name) {
			return name
		}
	}
}

// wrappers are functions that make calls for their callers.
var wrappers = []string{"openFile", "openSegment", "checkSegment", "readHeader", "store.decodeHeader", "header", "headerOf", "setFlags", "SyncEpochs", "openMeta", "openBolt", "bbolt.Open",
	"syncSegments", "locked", "updateLocked", "viewLocked", "update", "view", "opened", "writeEntryLocked", "ifUnused", "Open", "store.change[...]"}

func (d *Disk) force(path string, off, n int, op, site string, lost bool) {
	e := change{size: -1, force: true, lost: lost, site: op + " by " + site, end: 1 << 62}
	rel, _ := filepath.Rel(d.root, path)
	if _, ok := d.dirs[rel]; ok {
		e.dir = rel
	} else {
		e.ino = d.dirs[filepath.Dir(rel)][filepath.Base(rel)]
		if op == "syncRange" {
			e.at, e.end = int64(off)/page*page, int64(off+n)
		}
	}
	d.log = append(d.log, e)
}

// scan logs what has changed.
func (d *Disk) scan() error {
	seen := map[string]map[string]uint64{}
	err := filepath.WalkDir(d.root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(d.root, path)
		if entry.IsDir() {
			seen[rel] = map[string]uint64{}
		}
		if rel == "." {
			return nil
		}
		ino := uint64(0)
		if !entry.IsDir() {
			st, err := entry.Info()
			if err != nil {
				return err
			}
			ino = st.Sys().(*syscall.Stat_t).Ino
			if d.files[ino] == nil {
				f, err := os.Open(path)
				if err != nil {
					return err
				}
				d.files[ino] = &file{f: f}
			}
		}
		seen[filepath.Dir(rel)][filepath.Base(rel)] = ino
		return nil
	})
	if err != nil {
		return err
	}
	for ino, f := range d.files {
		if err := d.scanFile(ino, f); err != nil {
			return err
		}
	}
	for dir, entries := range seen {
		changed := map[string]int64{}
		for name, ino := range entries {
			if old, ok := d.dirs[dir][name]; !ok || old != ino {
				changed[name] = int64(ino)
			}
		}
		for name := range d.dirs[dir] {
			if _, ok := entries[name]; !ok {
				changed[name] = -1
			}
		}
		if len(changed) > 0 {
			d.log = append(d.log, change{dir: dir, entries: changed, size: -1})
		}
	}
	d.dirs = seen
	return nil
}

func (d *Disk) scanFile(ino uint64, f *file) error {
	data, err := io.ReadAll(io.NewSectionReader(f.f, 0, 1<<30))
	if err != nil {
		return err
	}
	if len(data) != len(f.data) {
		d.log = append(d.log, change{ino: ino, size: int64(len(data))})
	}
	for at := 0; at < len(data); at += page {
		now, old := data[at:min(at+page, len(data))], ""
		if at < len(f.data) {
			old = string(f.data[at:min(at+page, len(f.data))])
		}
		if string(now) != old && !(old == "" && string(now) == string(make([]byte, len(now)))) {
			d.log = append(d.log, change{ino: ino, at: int64(at), data: now, size: -1})
		}
	}
	f.data = data
	return nil
}

// Forces returns the functions that have forced something since the start.
func (d *Disk) Forces() []string {
	seen := map[string]bool{}
	for _, e := range d.log[d.start:] {
		if e.force {
			seen[e.site] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// State is the contents of a disk.
type State struct {
	dirs  map[string]map[string]int64
	sizes map[uint64]int64
	pages map[uint64]map[int64][]byte
}

func (s *State) apply(e change) {
	switch {
	case e.entries != nil:
		if s.dirs[e.dir] == nil {
			s.dirs[e.dir] = map[string]int64{}
		}
		for name, ino := range e.entries {
			if ino < 0 {
				delete(s.dirs[e.dir], name)
			} else {
				s.dirs[e.dir][name] = ino
			}
		}
	case e.data != nil:
		if s.pages[e.ino] == nil {
			s.pages[e.ino] = map[int64][]byte{}
		}
		s.pages[e.ino][e.at] = e.data
	default:
		s.sizes[e.ino] = e.size
	}
}

func (e *change) forced(by change) bool {
	if by.dir != "" {
		return e.dir == by.dir
	}
	return e.dir == "" && e.ino == by.ino && (e.data == nil || e.at >= by.at && e.at < by.end)
}

// replay replays the log up to a position, without the forces of the function in without. It
// returns what is certainly on the disk, and the changes that may be on it.
func (d *Disk) replay(position int, without string) (*State, []change) {
	s := &State{map[string]map[string]int64{}, map[uint64]int64{}, map[uint64]map[int64][]byte{}}
	var pending []change
	for i, e := range d.log[:position] {
		switch {
		case i < d.start:
			s.apply(e)
		case !e.force:
			pending = append(pending, e)
		case e.site != without:
			pending = slices.DeleteFunc(pending, func(p change) bool {
				done := p.forced(e) && !(e.lost && p.entries == nil && p.data == nil)
				if done && !e.lost {
					s.apply(p)
				}
				return done
			})
		}
	}
	return s, pending
}

// Full is the state at a position of the log if nothing is lost.
func (d *Disk) Full(position int) *State {
	s, pending := d.replay(position, "")
	for _, e := range pending {
		s.apply(e)
	}
	return s
}

// States calls yield for the possible states of the disk when the machine stops at a position of
// the log: of the changes that were not forced, none, all, all but one, one, or the first ones. The
// forces of the function in without are ignored.
func (d *Disk) States(position int, without string, yield func(*State)) {
	_, pending := d.replay(position, without)
	n := len(pending)
	some := func(keep func(i int) bool) {
		s, _ := d.replay(position, without)
		for i, e := range pending {
			if keep(i) {
				s.apply(e)
			}
		}
		yield(s)
	}
	some(func(int) bool { return false })
	for k := range n {
		some(func(i int) bool { return i <= k })
		some(func(i int) bool { return i == k })
		some(func(i int) bool { return i != k })
	}
}

// Positions returns the positions at which most may be lost: before each force, and the end.
func (d *Disk) Positions() []int {
	var all []int
	for i := d.start; i < len(d.log); i++ {
		if d.log[i].force {
			all = append(all, i)
		}
	}
	return append(all, len(d.log))
}

// walk calls fn for each file, in order of names.
func (s *State) walk(dir string, fn func(path string, ino int64)) {
	for _, name := range slices.Sorted(maps.Keys(s.dirs[dir])) {
		path, ino := filepath.Join(dir, name), s.dirs[dir][name]
		fn(path, ino)
		if ino == 0 {
			s.walk(path, fn)
		}
	}
}

// data returns the contents of a file.
func (s *State) data(ino uint64) []byte {
	b := make([]byte, s.sizes[ino])
	for at, p := range s.pages[ino] {
		if at < int64(len(b)) {
			copy(b[at:], p)
		}
	}
	return b
}

// Sum is equal for equal states.
func (s *State) Sum() string {
	h := sha256.New()
	s.walk(".", func(path string, ino int64) {
		fmt.Fprintln(h, path, ino == 0)
		if ino > 0 {
			b := s.data(uint64(ino))
			fmt.Fprintln(h, len(b))
			h.Write(b)
		}
	})
	return string(h.Sum(nil))
}

// Write writes the state into an empty directory.
func (s *State) Write(dir string) error {
	var err error
	s.walk(".", func(path string, ino int64) {
		path = filepath.Join(dir, path)
		switch {
		case err != nil:
		case ino == 0:
			err = os.Mkdir(path, 0o700)
		default:
			err = os.WriteFile(path, s.data(uint64(ino)), 0o600)
		}
	})
	return err
}
