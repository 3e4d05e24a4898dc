// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// The calls that package mpi makes to the MPI library. Each step of the Go side is one call of C.
// README.md has the protocol. The caller of every function except weft_wake_watch has the MPI lock.

#ifndef WEFT_MPI_ENGINE_H
#define WEFT_MPI_ENGINE_H

#if defined(__has_include)
#if !__has_include(<mpi.h>)
#error "mpi.h was not found: build with the compiler of an MPI library, as in CC=mpicc go build -tags mpi"
#endif
#endif

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

// Kinds of events.
enum {
	WEFT_FRAME,  // a message on the frames' communicator: peer, tag, data, bytes
	WEFT_BULK,   // a piece of a transfer has ended: id, peer, bytes, code
	WEFT_FAILED  // a receive of frames has failed: peer (or -1), code
};

enum {
	WEFT_SMALL = 512, // bytes of a small frame, with its head
	WEFT_BATCH = 16   // largest number of events of one poll
};

typedef struct {
	int32_t kind;
	int32_t peer;
	int32_t tag;
	int32_t code; // MPI_SUCCESS, or an error code
	uint64_t id;
	uint64_t bytes;
	char *data; // valid until the next weft_poll
} weft_event;

// What C reports to Go, in C's memory. It belongs to the goroutine or thread that has the MPI lock.
typedef struct {
	int32_t n;         // number of events of the last weft_poll that are not handled
	int32_t under_way; // number of pieces of transfers that have not ended
	int32_t crowded;   // constant: there are more ranks on this machine than processors
	// Go writes the head of the next frame here, and its data if both fit in WEFT_SMALL bytes;
	// NULL: no memory
	char *out;
	weft_event ev[WEFT_BATCH];
} weft_report;

// Words that Go and C both use, in Go's memory, pinned. The layout is that of Go's type shared.
typedef struct {
	uint32_t lock;   // the MPI lock: 0: free; 1: a goroutine or thread calls MPI
	uint32_t queued; // 1: the queue may have operations
	uint32_t stop;   // 1: the watch ends
	// number of operations begun and polls made, not by the watch; written with the MPI lock
	uint32_t activity;
	// 1: the watch sleeps long because nothing has happened; a goroutine that begins an operation
	// wakes it
	uint32_t long_sleep;
	uint32_t sleeps; // number of the watch's sleeps, for tests
	uint32_t polled; // 1: a goroutine polls, and wakes the watch if it gives up
} weft_shared;

typedef struct weft_engine weft_engine;

// Process-wide.
int weft_init(int *provided, int *rank, int *size, int *tag_ub, int *was);
// the lengths of all processes' shares
int weft_lengths(int mine, int *all);
// the shares themselves
int weft_gather(const char *mine, int n, char *all, const int *counts, const int *displacements);
int weft_error_text(int code, char *text, int *cls); // text: MPI_MAX_ERROR_STRING

// weft_open makes the communicators of the given ranks of the world. All of these ranks call it
// with the same arguments. exchange has n entries of 4 words each; the caller has filled in its
// own.
int weft_open(weft_engine **out, weft_shared *shared, const int *ranks, int n, int slots, int frame, uint64_t *exchange);
void weft_post(weft_engine *e);  // posts the receives of frames
// orderly: only receives of frames are outstanding at any rank. Otherwise MPI keeps everything
void weft_close(weft_engine *e, int orderly);
// after weft_close, when weft_wake_watch is not called any more
void weft_free(weft_engine *e);

weft_report *weft_report_of(weft_engine *e);

// An engine as a number, for functions that are called for each message: cgo checks the target of a
// pointer at each call.
typedef uintptr_t weft_number;

// a small frame: n bytes at out
int weft_send(weft_number engine, int dst, int tag, int n);
// hn bytes at out, then data
int weft_send_large(weft_engine *e, int dst, int tag, int hn, const char *data, int dn);
// tries to allocate out
void weft_refill(weft_engine *e);
int weft_push(weft_engine *e, int dst, int tag, const char *data, uint64_t n, uint64_t id);
int weft_expect(weft_engine *e, int src, int tag, char *data, uint64_t n, uint64_t id);
// 1: the whole expectation is withdrawn, and no event follows; 0: events follow
int weft_take_back(weft_engine *e, uint64_t id, uint64_t pieces);
// from now on, bytes may arrive that are not expected
void weft_expect_strays(weft_engine *e);
int weft_sending(weft_engine *e);              // number of sends that are not complete
int weft_active(weft_engine *e);               // number of outstanding requests
void weft_poll(weft_engine *e, int spins);
void weft_poll_go(weft_number engine, int spins); // weft_poll for Go; counts as activity

// weft_watch starts the watch: a thread that sleeps and polls. If there are events, or operations
// are queued, it calls weftWatchFound, with the MPI lock. When it is stopped, it calls
// weftWatchEnded last, without the lock. Returns an error number.
int weft_watch(weft_engine *e, uintptr_t handle, uint64_t max_sleep_ns);
void weft_wake_watch(weft_engine *e);

// In Go.
void weftWatchFound(uintptr_t handle);
void weftWatchEnded(uintptr_t handle);

// number of pieces of a transfer of n bytes
uint64_t weft_pieces(uint64_t n);

#endif
