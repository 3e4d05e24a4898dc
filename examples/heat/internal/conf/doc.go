// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package conf turns the command line and the sources file of heat into checked settings.
//
// Parse reads flags; what it returns is complete and consistent: sizes are rounded up to whole
// blocks, defaults filled in, names checked. Every error is a *UsageError and says what is legal.
// Nothing in this package touches anything but the sources file.
package conf
