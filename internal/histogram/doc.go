// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package histogram is ParaStation MPI's histogram of messages: its environment variables, its bins, its layout.
//
//	s, err := histogram.FromEnv(os.Getenv)
//	counts := make([]uint64, s.Bins())
//	counts[s.Bin(length)]++
//	err = s.Write(os.Stdout, counts)
//
// The limits of the bins are MIN, MIN<<SHIFT, MIN<<2·SHIFT, …, up to the first that is not below MAX. A message is in the first bin
// whose limit is not below its length, or in the last one: what is larger than MAX counts there too. So MIN=64, MAX=4096, SHIFT=2 are
// four bins, 64, 256, 1024 and 4096. That is release 5.4.7 of ParaStation MPI, whose layout this is; later ones print another
// row, for what is larger than MAX.
//
// The package is pure, and says nothing of which messages are counted: package comm does.
package histogram
