// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package job

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Ranks that ignore a signal from outside are killed when the grace period is over.
func TestGraceAfterASignal(t *testing.T) {
	for sig, name := range map[syscall.Signal]string{syscall.SIGTERM: "SIGTERM", syscall.SIGHUP: "SIGHUP"} {
		for _, keep := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, keep going %v", name, keep), func(t *testing.T) {
				signals := make(chan os.Signal, 16)
				out := newLineWriter()
				done := make(chan outcome, 1)
				isolate(t)
				go func() {
					done <- run(t, Spec{Stdout: out, Signals: signals, Grace: 50 * time.Millisecond, KeepGoing: keep,
						Parts: []Part{shell(2, "trap '' TERM HUP; echo ready; while :; do sleep 0.01; done")}})
				}()
				out.await(t, 2, "ready")
				signals <- sig
				o := <-done
				require.Equal(t, StatusSignalBase+int(sig), o.status)
				require.Equal(t, "weft run: killing ranks 0, 1, 50ms after "+name+"\n", o.errOut)
			})
		}
	}
}

// Ranks that end in time determine the status. A stopped rank is continued for that.
func TestSignalsLeaveTheEndToTheRanks(t *testing.T) {
	signals := make(chan os.Signal, 16)
	out := newLineWriter()
	done := make(chan outcome, 1)
	isolate(t)
	go func() {
		done <- run(t, Spec{Stdout: out, Signals: signals, Grace: time.Minute,
			Parts: []Part{shell(1, "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.01; done"),
				shell(1, "trap 'echo saved; exit 0' TERM; echo ready; while :; do kill -STOP $$; sleep 0.01; done")}})
	}()
	out.await(t, 2, "ready")
	signals <- syscall.SIGTERM
	out.await(t, 2, "saved")
	o := <-done
	require.Zero(t, o.status, o.errOut)
	require.NotContains(t, o.errOut, "killing")
}

// If a rank fails by a SIGTERM from outside, the others, which have had it too, are not sent a
// second one.
func TestOneSIGTERMIsOne(t *testing.T) {
	signals := make(chan os.Signal, 16)
	out := newLineWriter()
	done := make(chan outcome, 1)
	isolate(t)
	go func() {
		done <- run(t, Spec{Stdout: out, Signals: signals, Grace: time.Minute,
			Parts: []Part{shell(1, "echo ready; exec sleep 1000"),
				shell(1, "n=0; trap 'n=$((n+1)); echo term' TERM; echo ready; while [ $n = 0 ]; do sleep 0.01; done; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.03; done; exit $n")}})
	}()
	out.await(t, 2, "ready")
	signals <- syscall.SIGTERM
	o := <-done
	require.Equal(t, 143, o.status, o.errOut)
	require.Len(t, out.lines, 1, "one signal")
}

// A second signal to a launcher that waits for others kills its ranks and ends it.
func TestSecondInterruptWhileOthersAreAwaited(t *testing.T) {
	signals := make(chan os.Signal, 16)
	out := newLineWriter()
	done := make(chan outcome, 1)
	isolate(t)
	go func() {
		done <- run(t, Spec{Stdout: out, Signals: signals, Listen: "127.0.0.1:0", Elsewhere: 1, SecretFile: filepath.Join(t.TempDir(), "secret"), Parts: []Part{role("deaf", 1)}})
	}()
	out.await(t, 1, "ready")
	signals <- syscall.SIGINT
	signals <- syscall.SIGINT
	o := <-done
	require.Equal(t, 130, o.status, o.errOut)
}

// A launcher that waits for another one to listen ends with a signal.
func TestSignalDuringJoin(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, fmt.Appendf(nil, "%064d\n", 1), 0o600))
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer mute.Close()
	for what, addr := range map[string]string{"no listener": l.Addr().String(), "a silent listener": mute.Addr().String()} {
		t.Run(what, func(t *testing.T) {
			signals := make(chan os.Signal, 16)
			signals <- syscall.SIGUSR1
			signals <- syscall.SIGTERM
			o := run(t, Spec{Signals: signals, Join: addr, SecretFile: secret, Wait: time.Hour, Parts: []Part{shell(1, "true")}})
			require.ErrorContains(t, o.err, "ended by a signal (terminated) before it had ranks in the job at "+addr)
			require.Equal(t, 143, o.err.(*Error).Status)
		})
	}
}
