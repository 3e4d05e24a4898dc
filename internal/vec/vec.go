// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package vec

// Sum sets every dst[i] to a[i] + b[i].
func Sum[T Number](dst, a, b []T) {
	n := start(sum, dst, a, b)
	dst, a, b = dst[n:], a[n:], b[n:]
	b, dst = b[:len(a)], dst[:len(a)]
	for i, v := range a {
		dst[i] = v + b[i]
	}
}

// Prod sets every dst[i] to a[i] * b[i].
func Prod[T Number](dst, a, b []T) {
	n := start(prod, dst, a, b)
	dst, a, b = dst[n:], a[n:], b[n:]
	b, dst = b[:len(a)], dst[:len(a)]
	for i, v := range a {
		dst[i] = v * b[i]
	}
}

// Min sets every dst[i] to the less of a[i] and b[i].
func Min[T Ordered](dst, a, b []T) {
	n := start(least, dst, a, b)
	dst, a, b = dst[n:], a[n:], b[n:]
	b, dst = b[:len(a)], dst[:len(a)]
	for i, v := range a {
		dst[i] = min(v, b[i])
	}
}

// Max sets every dst[i] to the greater of a[i] and b[i].
func Max[T Ordered](dst, a, b []T) {
	n := start(greatest, dst, a, b)
	dst, a, b = dst[n:], a[n:], b[n:]
	b, dst = b[:len(a)], dst[:len(a)]
	for i, v := range a {
		dst[i] = max(v, b[i])
	}
}
