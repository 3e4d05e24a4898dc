// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package powerloss tells tests what a disk may have of a directory when the machine stops. A Disk
// stands between a store and the operating system (Config.System). It looks at the files before and
// after each call, also at what was written through mappings, and logs what has changed and what
// was forced. States are what there may be after each prefix of the log: what was forced, and of
// the rest anything.
//
// The model is no kinder than POSIX: a file's entry is on the disk when its directory was forced,
// its bytes when the file was; a page is written as a whole; a force that fails has lost the pages.
package powerloss
