// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"

	"weft/examples/heat/internal/conf"
)

func view(ctx context.Context, cfg *conf.View, stdout, stderr io.Writer) error { return nil }
