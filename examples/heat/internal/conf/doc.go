// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package conf parses the command line and the sources file of heat.
//
// The result of Parse is complete and consistent: sizes are rounded up to whole blocks, defaults
// are filled in, names are checked. Every error is a *UsageError and names the legal values. The
// package accesses no file but the sources file.
package conf
