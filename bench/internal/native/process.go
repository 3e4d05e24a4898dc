// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"weft/bench/internal/harness"
)

// A Process is a running program that answers questions.
type Process struct {
	name    string
	cmd     *exec.Cmd
	ask     io.WriteCloser
	answers *bufio.Reader
}

func start(cmd *exec.Cmd, name string) (*Process, error) {
	cmd.Stderr = os.Stderr
	ask, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	answers, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &Process{name: name, cmd: cmd, ask: ask, answers: bufio.NewReader(answers)}, nil
}

// Ask sends one line and returns the figure of the answer. If the program found its answer wrong,
// Ask also returns an error that wraps harness.ErrWrongAnswer.
func (p *Process) Ask(question string) (float64, error) {
	if _, err := io.WriteString(p.ask, question+"\n"); err != nil {
		return 0, fmt.Errorf("%s: %w", p.name, err)
	}
	line, err := p.answers.ReadString('\n')
	if err != nil {
		return 0, fmt.Errorf("%s ended without an answer: %w", p.name, err)
	}
	v, err := parse(line)
	if err != nil {
		err = fmt.Errorf("%s: %w", p.name, err)
	}
	return v, err
}

// Close closes the program's input, which ends the program, and waits for its end.
func (p *Process) Close() error {
	return errors.Join(p.ask.Close(), p.cmd.Wait())
}

// parse reads "81.5 ok" or "81.5 wrong what was wrong".
func parse(line string) (float64, error) {
	figure, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	verdict, what, _ := strings.Cut(rest, " ")
	v, err := strconv.ParseFloat(figure, 64)
	switch {
	case err != nil || verdict != "ok" && verdict != "wrong":
		return 0, fmt.Errorf("its answer was %q, not a figure followed by ok or wrong", line)
	case verdict == "wrong":
		return v, harness.Wrong("%s", what)
	}
	return v, nil
}
