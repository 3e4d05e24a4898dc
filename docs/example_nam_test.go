// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"context"
	"fmt"
	"os"

	"weft/comm"
	"weft/nam"
)

func Example_nam() {
	dir, err := os.MkdirTemp("", "nam")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if err := save(dir); err != nil {
		fmt.Println(err)
	}
	if err := load(dir, "squares"); err != nil {
		fmt.Println(err)
	}
	if err := admin(dir); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 3 regions, 2 fences complete
	// rank 2: 64 bytes in units of 8 first value 4
	// squares: 192 bytes
}

// save is the first program.
func save(dir string) error {
	store, err := nam.Open(dir, nam.Config{}) // "" is the default directory
	if err != nil {
		return err
	}
	defer store.Close()
	return comm.Run(context.Background(), comm.Config{Ranks: 3}, func(c *comm.Comm) error {
		win, err := store.Allocate(c, 8*8, 8, nam.Persistent, nam.Name("squares"))
		if err != nil {
			return err
		}
		if err := win.Fence(0); err != nil {
			return err
		}
		block := make([]int64, 8)
		block[0] = int64(c.Rank() * c.Rank())
		if err := win.Put(comm.Of(block), c.Rank(), 0); err != nil {
			return err
		}
		if err := win.Fence(0); err != nil { // from here on it survives the death of the program
			return err
		}
		return win.Free() // the memory and its name stay
	})
}

// load is the second program, with another number of ranks.
func load(dir, name string) error {
	store, err := nam.Open(dir, nam.Config{})
	if err != nil {
		return err
	}
	defer store.Close()
	return comm.Run(context.Background(), comm.Config{Ranks: 1}, func(c *comm.Comm) error {
		win, err := store.Attach(c, name, nam.ReadOnly(true))
		if err != nil {
			return err
		}
		fmt.Println(win.RemoteSize(), "regions,", win.Epochs(), "fences complete")
		size, unit := win.Region(2)
		block := make([]int64, size/unit)
		if err := win.Fence(0); err != nil {
			return err
		}
		if err := win.Get(comm.Of(block), 2, 0); err != nil {
			return err
		}
		if err := win.Fence(0); err != nil {
			return err
		}
		fmt.Println("rank 2:", size, "bytes in units of", unit, "first value", block[0])
		return win.Free()
	})
}

// admin lists and removes.
func admin(dir string) error {
	store, err := nam.Open(dir, nam.Config{})
	if err != nil {
		return err
	}
	defer store.Close()
	list, err := store.List()
	if err != nil {
		return err
	}
	for _, a := range list {
		fmt.Printf("%s: %d bytes\n", a.Name, a.Bytes)
		if err := store.Remove(a.Name); err != nil {
			return err
		}
	}
	return nil
}

func Example_namInfo() {
	dir, err := os.MkdirTemp("", "nam")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	store, err := nam.Open(dir, nam.Config{})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	err = comm.Run(context.Background(), comm.Config{Ranks: 2}, func(c *comm.Comm) error {
		info := comm.NewInfo(
			"psnam_manifestation", "psnam_manifestation_libnam",
			"psnam_consistency", "psnam_consistency_persistent",
			"psnam_structure", "psnam_structure_managed_contiguous")
		win, err := store.Allocate(c, 4096, 1, nam.FromInfo(info))
		if err != nil {
			return err
		}
		name := win.Info().Get("psnam_window_name")
		if c.Rank() == 0 {
			fmt.Println(name != "", name == win.Name())
		}
		return win.Free()
	})
	fmt.Println(err)
	// Output:
	// true true
	// <nil>
}
