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

// command is the program but for the process around it.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	program, help := runCommand, conf.Help
	if len(args) > 0 && args[0] == "view" {
		program, help, args = viewCommand, conf.ViewHelp, args[1:]
	}
	err := program(ctx, args, stdout, stderr)
	var usage *conf.UsageError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, conf.ErrHelp):
		_, _ = io.WriteString(stdout, help)
		return exitOK
	case errors.As(err, &usage):
		_, _ = fmt.Fprintln(stderr, "heat:", err)
		return exitUsage
	default:
		_, _ = fmt.Fprintln(stderr, "heat:", err)
		return exitFailed
	}
}

// runCommand is the program without a subcommand.
func runCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	cfg, err := conf.Parse(args)
	if err != nil {
		return err
	}
	for _, w := range cfg.Warnings {
		_, _ = fmt.Fprintln(stderr, "heat: warning:", w)
	}
	return runHeat(ctx, cfg, stdout, stderr)
}

// viewCommand is heat view.
func viewCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	cfg, err := conf.ParseView(args)
	if err != nil {
		return err
	}
	return view(ctx, cfg, stdout, stderr)
}
