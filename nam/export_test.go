// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package nam

// SetStep has f called at each step of the store's protocols.
func SetStep(cfg *Config, f func(string)) { cfg.step = f }

// SetBoot makes the store believe that the machine has the boot ID name.
func SetBoot(cfg *Config, name string) { cfg.boot = name }

// SetSystem makes f intercept the store's calls of the operating system.
func SetSystem(cfg *Config, f func(op, path string, off, n int, call func() error) error) {
	cfg.system = f
}
