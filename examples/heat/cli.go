// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"weft/comm"
	"weft/examples/heat/internal/conf"
)

// Exit statuses.
const (
	exitOK = iota
	exitFailed
	exitUsage
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// command runs the program with arguments and outputs as parameters, and returns the exit status.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	program, help := runCommand, conf.Help
	if len(args) > 0 && args[0] == "view" {
		program, help, args = viewCommand, conf.ViewHelp, args[1:]
	}
	err := program(ctx, args, stdout, stderr)
	var usage *conf.UsageError
	var elsewhere *reportedElsewhere
	status := exitFailed
	if errors.As(err, &usage) {
		status = exitUsage
	}
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, conf.ErrHelp):
		_, _ = io.WriteString(stdout, help)
		return exitOK
	case errors.As(err, &elsewhere):
		return status
	default:
		_, _ = fmt.Fprintln(stderr, "heat:", err)
		return status
	}
}

// runCommand is the program without a subcommand.
func runCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	rank, ranks, launched, err := comm.Launched()
	if err != nil {
		_, perr := conf.Parse(args, 0)
		return helpOr(perr, err)
	}
	cfg, err := conf.Parse(args, ranks)
	if launched {
		return runLaunched(ctx, rank, cfg, err, stdout, stderr)
	}
	if err != nil {
		return err
	}
	return runHeat(ctx, cfg, stdout, stderr)
}

// viewCommand is the program heat view.
func viewCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	cfg, perr := conf.ParseView(args)
	if rank, _, launched, err := comm.Launched(); err != nil || launched && rank != 0 {
		return helpOr(perr, err) // only rank 0 makes the movie
	}
	if perr != nil {
		return perr
	}
	return view(ctx, cfg, stdout, stderr)
}

// helpOr returns err. If the user has asked for help, it returns that request instead: help works
// also where the rank is unknown.
func helpOr(perr, err error) error {
	if err != nil && errors.Is(perr, conf.ErrHelp) {
		return perr
	}
	return err
}
