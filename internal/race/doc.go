// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package race tells the race detector, in a build for lint mode, what is ordered. Such a build leaves the
// runtime of tasks out of the detector, so that what the runtime does orders nothing there; what does is said
// by hand. In other builds all of it is nothing.
package race
