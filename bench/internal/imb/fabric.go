// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package imb

// fabricOptions returns the options of weft run that make ranks use one fabric only.
func fabricOptions(fabric string) []string { return []string{"-env", "WEFT_FABRIC=" + fabric} }
