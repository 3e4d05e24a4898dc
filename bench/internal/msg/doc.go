// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package msg holds the message workloads: what it costs to get bytes from one rank to another.
//
// msg/pingpong sends a message there and back, again and again, and reports half of a round trip.
// The peers move the same bytes between the same two buffers:
//
//	channels  two goroutines hand each other a pointer to their buffer over unbuffered channels;
//	          the receiver copies the buffer
//	copy      one goroutine copies there and back, without a hand-over: the bandwidth of memory in
//	          plain Go
//
// Every message carries a number at both ends, which the receiver compares with the expected
// number. At the end of a sample the two buffers must be equal.
package msg
