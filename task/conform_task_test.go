// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import "testing"

// IF-01, step by step: an undeferred task that is ready runs at once; one that is not stops its creator and nobody
// else; and its creator waits for its body, not for its children and events.
func TestIF01_UndeferredSteps(t *testing.T) {
	play(t, `
		undeferred A inout(x)     | main? A
		end A                     |
		spawn P                   | P
		spawn Q inout(x)          | P Q
		undeferred P.1 inout(y)   | P? Q P.1
		spawn P.1.1 inout(y)      | P? Q P.1 P.1.1
		hold P.1                  | P? Q P.1 P.1.1
		end P.1                   | P Q P.1.1
		spawn P.2 in(y)           | P Q P.1.1
		event P.1                 | P Q P.1.1
		end P.1.1                 | P Q P.2
		undeferred B in(x)        | main? P Q P.2
		end Q                     | main? P P.2 B
		end B                     | P P.2
	`)
}
