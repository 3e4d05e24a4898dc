// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package imb

// fabricOptions are the options of weft run by which ranks use a fabric and no other.
func fabricOptions(fabric string) []string { return []string{"-env", "WEFT_FABRIC=" + fabric} }
