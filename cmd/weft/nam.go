// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"weft/nam"
)

// namFlags are the flags of all commands of "weft nam".
type namFlags struct {
	dir  string
	json bool
}

func newNam() *cobra.Command {
	f := &namFlags{}
	cmd := &cobra.Command{
		Use:   "nam",
		Short: "List, describe, remove and restore windows of network-attached memory",
		Long: `nam lists, describes, removes and restores the windows in a store of network-attached memory.

A store is a directory: $WEFT_NAM_DIR or, if that is not set, weft/nam in the user's cache directory, as for weft
programs. -C selects another one. The commands may be used while programs run. ls and stat also work in a store
that is read-only.

A window has two descriptions, in the store's database and in its own file. A file that the database does not have
is set aside: ls shows it, restore brings it back, drop removes it. If the database itself is lost or damaged,
repair makes a new one.`,
		Args: legalCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().StringVarP(&f.dir, "nam-dir", "C", "", "directory of the store (default: $"+nam.EnvDir+", or weft/nam in the user's cache directory)")

	ls := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the windows",
		Long: `ls lists the windows of the store, sorted by name, and then those that are set aside.

  NAME       the name for Attach; the id of a window that is set aside, if its name is not known
  STATE      ready;
             creating or deleting: a program creates or deletes the window, or has died meanwhile;
             unsynced: the machine stopped before the data was on the disk (see accept);
             damaged: part of the file is missing;
             set aside: the database does not have it
  STRUCTURE  the layout of the regions
  KEPT       persistent, or volatile: removed with the program that uses it
  RANKS      number of regions: one for each rank of the program that made the window (1 if raw)
  SIZE       of all regions together
  EPOCHS     number of closed epochs; "2 of 8": only 2 of 8 epochs are certainly on the disk;
             "?": the file cannot be read (see stat)
  CREATED    time of creation
  BY         program, process and host of the creator`,
		Args: arguments(cobra.NoArgs, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.list(cmd.OutOrStdout()) },
	}
	stat := &cobra.Command{
		Use:   "stat NAME...",
		Short: "Describe windows with all their regions",
		Long: `stat describes windows, including those that are set aside, by name or by id.
The line "problem" says what is wrong with a window.`,
		Example: "  weft nam stat heat\n  weft nam stat --json heat | jq '.[0].epochs'",
		Args:    arguments(cobra.MinimumNArgs(1), "the names of one or more windows"),
		RunE:    func(cmd *cobra.Command, args []string) error { return f.stat(cmd.OutOrStdout(), args) },
	}
	for _, c := range []*cobra.Command{ls, stat} {
		c.Flags().BoolVar(&f.json, "json", false, "print a JSON array, with sizes in bytes")
	}
	rm := &cobra.Command{
		Use:     "rm NAME...",
		Aliases: []string{"remove"},
		Short:   "Remove windows",
		Long: `rm removes windows. The name is free at once. The memory is released when the last program that uses the window
frees it or ends. A removed window cannot be brought back.`,
		Args: arguments(cobra.MinimumNArgs(1), "the names of one or more windows"),
		RunE: f.each("removed", func(s *nam.Store, name string) error { return f.explain(s, s.Remove(name)) }),
	}
	cmd.AddCommand(ls, stat, rm, f.restoreCommand())
	cmd.AddCommand(f.recoveryCommands()...)
	return cmd
}

func (f *namFlags) open() (*nam.Store, error) { return nam.Open(f.dir, nam.Config{MustExist: true}) }

func (f *namFlags) list(out io.Writer) error {
	s, err := f.open()
	if errors.Is(err, fs.ErrNotExist) && f.dir == "" {
		// The default store does not exist before its first use: that is no error.
		if !f.json {
			_, err = fmt.Fprintf(out, "no windows: there is no store in %s yet\n", nam.DefaultDir())
			return err
		}
		return printJSON(out, []*nam.Allocation{})
	}
	if err != nil {
		return err
	}
	defer s.Close()
	all, err := s.List()
	if err != nil {
		return err
	}
	asides, err := s.SetAside()
	if err != nil {
		return err
	}
	all = append(all, asides...)
	if f.json {
		return printJSON(out, all)
	}
	if len(all) == 0 {
		_, err := fmt.Fprintf(out, "no windows in %s\n", s.Dir())
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tSTATE\tSTRUCTURE\tKEPT\tRANKS\tSIZE\tEPOCHS\tCREATED\tBY")
	for _, a := range all {
		name := cmp.Or(a.Name, a.ID) // the name or id that other commands accept
		if a.Structure == 0 {        // its header has no more
			fmt.Fprintf(w, "%s\t%s\t?\t?\t?\t%s\t%s\t%s\t?\n", name, a.State, size(a.Footprint), epochs(a), a.Created.Format(time.DateTime))
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", name, a.State, short(a.Structure), short(a.Consistency), len(a.Regions),
			size(a.Bytes), epochs(a), a.Created.Format(time.DateTime), a.Creator)
	}
	return w.Flush()
}

func (f *namFlags) stat(out io.Writer, names []string) error {
	s, err := f.open()
	if err != nil {
		return err
	}
	defer s.Close()
	found := []*nam.Allocation{}
	var errs []error
	asides, err := s.SetAside()
	if err != nil {
		return err
	}
	for _, name := range names {
		a, err := s.Stat(name)
		if err == nil {
			found = append(found, a)
			continue
		}
		known := false
		for _, a := range asides {
			if a.ID == name || a.Name == name {
				found, known = append(found, a), true
			}
		}
		if !known {
			errs = append(errs, f.explain(s, err))
		}
	}
	if f.json {
		errs = append(errs, printJSON(out, found))
		return errors.Join(errs...)
	}
	for i, a := range found {
		if i > 0 {
			fmt.Fprintln(out)
		}
		errs = append(errs, printAllocation(out, a))
	}
	return errors.Join(errs...)
}

// epochs formats the number of epochs, and how many of them are certainly on the disk.
func epochs(a *nam.Allocation) string {
	if a.Problem != "" && a.Epochs == 0 {
		return "?" // its header cannot be read
	}
	if a.Vouched < a.Epochs {
		return fmt.Sprintf("%d of %d", a.Vouched, a.Epochs)
	}
	return fmt.Sprint(a.Epochs)
}

// explain adds the known names to the error of an unknown one.
func (f *namFlags) explain(s *nam.Store, err error) error {
	if !errors.Is(err, nam.ErrName) {
		return err
	}
	all, lerr := s.List()
	if lerr != nil {
		return err
	}
	const limit = 8
	var names []string
	for _, a := range all {
		if a.State != "creating" && a.State != "deleting" {
			names = append(names, a.Name)
		}
	}
	switch n := len(names); {
	case n == 0:
		return fmt.Errorf("%w; %s has no windows", err, s.Dir())
	case n > limit:
		return fmt.Errorf("%w; %s has %s and %d more", err, s.Dir(), strings.Join(names[:limit], ", "), n-limit)
	}
	return fmt.Errorf("%w; %s has %s", err, s.Dir(), strings.Join(names, ", "))
}

func printAllocation(out io.Writer, a *nam.Allocation) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if a.Structure == 0 { // set aside, and its header has no more
		fmt.Fprintf(w, "id\t%s\nstate\t%s\nsize\t%s (%d bytes) with its headers\nepochs\t%s\nchanged\t%s\n", a.ID, a.State, size(a.Footprint), a.Footprint,
			epochs(a), a.Created.Format(time.RFC3339))
		if a.Problem != "" {
			fmt.Fprintf(w, "problem\t%s\n", a.Problem)
		}
		return w.Flush()
	}
	problem := "none"
	switch {
	case a.Problem != "":
		problem = a.Problem
	case a.State == "unsynced":
		problem = fmt.Sprintf("the machine stopped before the data was on the disk: only %s epochs are certain (weft nam accept)", epochs(a))
	}
	for _, row := range [][2]string{
		{"name", a.Name},
		{"id", a.ID},
		{"state", a.State},
		{"problem", problem},
		{"structure", a.Structure.String()},
		{"consistency", a.Consistency.String()},
		{"sync", a.Sync.String()},
		{"size", fmt.Sprintf("%s (%d bytes; %d of the capacity)", size(a.Bytes), a.Bytes, a.Footprint)},
		{"epochs", epochs(a)},
		{"access", fmt.Sprintf("%v, user %d, group %d", a.Mode, a.UID, a.GID)},
		{"created", a.Created.Format(time.RFC3339)},
		{"by", a.Creator},
	} {
		fmt.Fprintf(w, "%s\t%s\n", row[0], row[1])
	}
	if err := w.Flush(); err != nil {
		return err
	}
	w = tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "rank\tbytes\tunit\tmanifestation\t")
	for r, g := range a.Regions {
		fmt.Fprintf(w, "%d\t%d\t%d\t%s\t\n", r, g.Size, g.Unit, short(g.Manifestation))
	}
	return w.Flush()
}

func printJSON(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// short returns the last part of an info value, without the key before it.
func short(v fmt.Stringer) string {
	s := strings.TrimPrefix(v.String(), "psnam_")
	if _, rest, ok := strings.Cut(s, "_"); ok {
		return rest
	}
	return s
}

// size formats a number of bytes with a unit.
func size(n int64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v, i := float64(n)/1024, 0
	for v >= 1024 && i < len(units)-1 {
		v, i = v/1024, i+1
	}
	return fmt.Sprintf("%.1f %ciB", v, units[i])
}
