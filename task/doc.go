// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package task runs task-dataflow programs: bodies that declare which objects
// they read and write, and that run in parallel as far as these accesses allow.
package task
