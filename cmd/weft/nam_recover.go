// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"weft/nam"
)

// The commands of "weft nam" that recover windows and databases.

func (f *namFlags) restoreCommand() *cobra.Command {
	var as string
	var all bool
	c := &cobra.Command{
		Use:   "restore NAME|ID...",
		Short: "Bring back windows that are set aside",
		Long: `restore brings back windows whose file is in the store, but not in its database, because the database was damaged or
replaced by an older one. weft nam ls lists them. If several have the same name, use the id. If the name is in use, --as
gives the window another one. A window of layout 1, of which only the bytes are known, needs --as, too.`,
		Example: "  weft nam restore heat\n  weft nam restore 28ef0409d3ee793f72a1b0c2d3e4f506 --as heat-old\n  weft nam restore --all",
		Args: func(cmd *cobra.Command, args []string) error {
			named := cmd.Flags().Changed("as")
			switch err := nam.CheckName(as); {
			case all && named:
				return usageError{errors.New("--as is for one window, and --all for all of them")}
			case all:
				return arguments(cobra.NoArgs, "no names with --all")(cmd, args)
			case named && err != nil:
				return usageError{fmt.Errorf("--as: %w", err)}
			case named:
				return arguments(cobra.ExactArgs(1), "one window for --as")(cmd, args)
			}
			return arguments(cobra.MinimumNArgs(1), "the names or ids of one or more windows, or --all")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.restore(cmd.OutOrStdout(), args, as, all) },
	}
	c.Flags().StringVar(&as, "as", "", "a new name for the window")
	c.Flags().BoolVar(&all, "all", false, "restore all windows that can be restored")
	return c
}

func (f *namFlags) recoveryCommands() []*cobra.Command {
	return []*cobra.Command{
		{
			Use:   "drop NAME|ID...",
			Short: "Remove the files of windows that are set aside",
			Long: `drop removes the files of windows that are set aside. They cannot be brought back. rm removes windows that are in
the database.`,
			Args: arguments(cobra.MinimumNArgs(1), "the names or ids of one or more windows that are set aside"),
			RunE: f.each("dropped", (*nam.Store).Drop),
		},
		{
			Use:   "accept NAME...",
			Short: "Accept unsynced windows as they are",
			Long: `accept makes unsynced windows ready, with their count of epochs. The machine stopped while they were in use, before
their data was on the disk, so part of the data may be missing. Inspect them first, with nam.ReadOnly and nam.Unsynced.
A window that was made with nam.SyncEpoch is never unsynced.`,
			Args: arguments(cobra.MinimumNArgs(1), "the names of one or more windows"),
			RunE: f.each("accepted", func(s *nam.Store, name string) error { return f.explain(s, s.Accept(name)) }),
		},
		{
			Use:   "repair",
			Short: "Make a new database for a store whose database is lost or damaged",
			Long: `repair makes a new database from the headers of the windows' files, for a store that does not open because its
database is lost or damaged. Windows that cannot be brought back are set aside. The old database is kept as
meta.db.damaged. A store with an intact database is not changed.`,
			Args: arguments(cobra.NoArgs, "no arguments"),
			RunE: func(cmd *cobra.Command, _ []string) error { return f.repair(cmd.OutOrStdout()) },
		},
	}
}

func (f *namFlags) restore(out io.Writer, which []string, as string, everyone bool) error {
	s, err := f.open()
	if err != nil {
		return err
	}
	defer s.Close()
	if everyone {
		all, err := s.SetAside()
		if err != nil {
			return err
		}
		for _, a := range all {
			which = append(which, a.ID)
		}
		if len(which) == 0 {
			_, err := fmt.Fprintf(out, "nothing is set aside in %s\n", s.Dir())
			return err
		}
	}
	var errs []error
	for _, one := range which {
		name, err := s.Restore(one, as)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		fmt.Fprintln(out, "restored", name)
	}
	return errors.Join(errs...)
}

// each makes a command that calls do for each name, prints each success, and returns all errors.
func (f *namFlags) each(done string, do func(*nam.Store, string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, names []string) error {
		s, err := f.open()
		if err != nil {
			return err
		}
		defer s.Close()
		var errs []error
		for _, name := range names {
			if err := do(s, name); err != nil {
				errs = append(errs, err)
				continue
			}
			fmt.Fprintln(cmd.OutOrStdout(), done, name)
		}
		return errors.Join(errs...)
	}
}

func (f *namFlags) repair(out io.Writer) error {
	names, err := nam.Repair(f.dir, nam.Config{})
	if err != nil {
		return err
	}
	if names == nil {
		_, err := fmt.Fprintf(out, "nothing to repair: the database of %s is intact\n", cmp.Or(f.dir, nam.DefaultDir()))
		return err
	}
	plural := map[bool]string{true: "s"}[len(names) != 1]
	_, err = fmt.Fprintf(out, "made a new database with %d window%s: %s\n", len(names), plural, strings.Join(names, ", "))
	return err
}
