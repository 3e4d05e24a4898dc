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

// The commands of "weft nam" for what a store has lost sight of.

func (f *namFlags) restoreCommand() *cobra.Command {
	var as string
	var all bool
	c := &cobra.Command{
		Use:   "restore NAME|ID...",
		Short: "Bring windows back that are set aside",
		Long: `restore brings windows back that have files in the store and no record in its database, because that was damaged
or replaced by an older one. weft nam ls lists them. Where several have one name, the id says which one is meant. A window
whose name is in use gets another one with --as, as does one of layout 1, of which only the bytes are known.`,
		Example: "  weft nam restore heat\n  weft nam restore 28ef0409d3ee793f72a1b0c2d3e4f506 --as heat-old\n  weft nam restore --all",
		Args: func(cmd *cobra.Command, args []string) error {
			named := cmd.Flags().Changed("as")
			switch err := nam.CheckName(as); {
			case all && named:
				return usageError{errors.New("--as is for one window, and --all for all of them")}
			case all:
				return arguments(cobra.NoArgs, "no names beside --all")(cmd, args)
			case named && err != nil:
				return usageError{fmt.Errorf("--as: %w", err)}
			case named:
				return arguments(cobra.ExactArgs(1), "one window for --as")(cmd, args)
			}
			return arguments(cobra.MinimumNArgs(1), "the names or ids of one or more windows, or --all")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.restore(cmd.OutOrStdout(), args, as, all) },
	}
	c.Flags().StringVar(&as, "as", "", "the name that the window is to have instead of its own")
	c.Flags().BoolVar(&all, "all", false, "all that can be restored")
	return c
}

func (f *namFlags) recoveryCommands() []*cobra.Command {
	return []*cobra.Command{
		{
			Use:   "drop NAME|ID...",
			Short: "Remove windows for good that are set aside",
			Long: `drop removes the files of windows that are set aside. What was dropped cannot be brought back. Windows that the
database knows are removed by rm.`,
			Args: arguments(cobra.MinimumNArgs(1), "the names or ids of one or more windows that are set aside"),
			RunE: f.each("dropped", (*nam.Store).Drop),
		},
		{
			Use:   "accept NAME...",
			Short: "Take unsynced windows as they are",
			Long: `accept takes the count of epochs of windows as true that were in use when the machine stopped, before they were on
the disk. Part of their data may be missing: look at them first, with nam.ReadOnly and nam.Unsynced. Windows that
are made with nam.SyncEpoch are never unsynced.`,
			Args: arguments(cobra.MinimumNArgs(1), "the names of one or more windows"),
			RunE: f.each("accepted", func(s *nam.Store, name string) error { return f.explain(s, s.Accept(name)) }),
		},
		{
			Use:   "repair",
			Short: "Make a new database of a store whose own is lost or damaged",
			Long: `repair makes a new database for a store that does not open because its database is lost or damaged, from what the
windows' files say of themselves. What cannot be brought back is set aside. The old database stays, as meta.db.damaged.
A store whose database is whole is left as it is.`,
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

// each makes a command that does something to each of some windows, says so where it is done, and
// returns all errors.
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
		_, err := fmt.Fprintf(out, "nothing to repair: the database of %s is whole\n", cmp.Or(f.dir, nam.DefaultDir()))
		return err
	}
	plural := map[bool]string{true: "s"}[len(names) != 1]
	_, err = fmt.Fprintf(out, "made a new database with %d window%s: %s\n", len(names), plural, strings.Join(names, ", "))
	return err
}
