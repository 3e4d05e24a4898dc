// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"fmt"

	"weft/internal/env"
	"weft/internal/launch/bind"
)

// divide determines which processors the ranks of this launcher get, if they are bound.
func (r *runner) divide() *Error {
	p := r.spec.Bind
	if p == nil || p.None() {
		return nil
	}
	m, err := bind.Here()
	why := ""
	if err == nil {
		r.sets, why, err = p.Divide(m, len(r.progs))
	}
	switch {
	case err != nil && !p.Auto():
		return &Error{StatusUsage, fmt.Errorf("ranks cannot be bound: %w", err)}
	case err != nil:
		why = err.Error()
	}
	if why != "" {
		r.detail("ranks are not bound to processors: %s", why)
	}
	return nil
}

// detail writes a line that only Spec.Verbose asks for.
func (r *runner) detail(format string, args ...any) {
	if r.spec.Verbose {
		r.say(format, args...)
	}
}

// bindRank binds the thread that is about to start the i-th rank of this launcher. It returns
// variables for the rank's environment, and the function that gives the thread its processors back.
func (r *runner) bindRank(rank, i int) (vars []string, restore func(), _ *Error) {
	if r.sets == nil {
		return []string{env.Bound.Name + "="}, func() {}, nil
	}
	s := r.sets[i]
	back, err := bind.Thread(s)
	if err != nil {
		// The processors that this process may use have changed since divide.
		if !r.spec.Bind.Auto() {
			return nil, nil, &Error{StatusUsage, fmt.Errorf("rank %d cannot be bound to %w", rank, err)}
		}
		r.say("rank %d is not bound to processors: %v", rank, err)
		return []string{env.Bound.Name + "="}, func() {}, nil
	}
	r.detail("rank %d is bound to processors %v", rank, s)
	return []string{env.Bound.Name + "=" + s.String()}, func() {
		if err := back(); err != nil {
			r.say("the launcher stays bound to processors %v: %v", s, err)
		}
	}, nil
}
