// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package main

import "os/exec"

func inGroup(*exec.Cmd)   {}
func killGroup(*exec.Cmd) {}
