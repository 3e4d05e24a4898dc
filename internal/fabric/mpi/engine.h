// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// What package mpi asks of the MPI library, so that each turn of the Go side is one call of C.
// README.md has the protocol. All functions but weft_kick are called by whoever holds the seat.

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
	WEFT_BATCH = 16   // events of one turn at most
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

// What the two sides of the language border hand to each other, in C's memory. It belongs to who
// has the seat.
typedef struct {
	int32_t n;         // events of the last weft_poll that are not handled
	int32_t under_way; // pieces of transfers that have not ended
	int32_t crowded;   // constant: there are more ranks on this machine than processors
	// where the head of the next frame is to be written, and its data if both fit in WEFT_SMALL
	// bytes; NULL: no memory
	char *out;
	weft_event ev[WEFT_BATCH];
} weft_desk;

// Words that both sides of the language border use, in Go's memory, pinned. The layout is that of
// Go's type shared.
typedef struct {
	uint32_t seat;  // 0: free; 1: somebody talks to MPI
	uint32_t bell;  // 1: there may be work in the queue
	uint32_t stop;  // 1: the watch ends
	// what others than the watch have begun, and their looks; written by who has the seat
	uint32_t turns;
	// 1: the watch sleeps long because nothing has happened; who begins something kicks it
	uint32_t deep;
	uint32_t waits; // the watch's sleeps, for tests
	uint32_t polled; // 1: somebody polls all the time, and kicks the watch if he gives up
} weft_shared;

typedef struct weft_engine weft_engine;

// Process-wide.
int weft_init(int *provided, int *rank, int *size, int *tag_ub, int *was);
// of the world's shares
int weft_lengths(int mine, int *all);
// the shares themselves
int weft_gather(const char *mine, int n, char *all, const int *counts, const int *displacements);
int weft_error_text(int code, char *text, int *cls); // text: MPI_MAX_ERROR_STRING

// weft_open makes the communicators of the given ranks of the world, which all call it, with the
// same arguments. exchange is size entries of 4 words each; the caller's own is filled in.
int weft_open(weft_engine **out, weft_shared *shared, const int *ranks, int n, int slots, int frame, uint64_t *exchange);
void weft_post(weft_engine *e);  // posts the receives of frames
// orderly: nothing is outstanding at any rank but receives of frames; else MPI keeps what it has
void weft_close(weft_engine *e, int orderly);
void weft_free(weft_engine *e);              // after weft_close, when nobody can kick any more

weft_desk *weft_desk_of(weft_engine *e);

// An engine as a number, for what is called for each message: Go looks each time where a pointer
// leads.
typedef uintptr_t weft_number;

// a small frame: n bytes at out
int weft_send(weft_number engine, int dst, int tag, int n);
// hn bytes at out, then data
int weft_send_large(weft_engine *e, int dst, int tag, int hn, const char *data, int dn);
// tries to make room at out
void weft_refill(weft_engine *e);
int weft_push(weft_engine *e, int dst, int tag, const char *data, uint64_t n, uint64_t id);
int weft_expect(weft_engine *e, int src, int tag, char *data, uint64_t n, uint64_t id);
// 1: all of an expectation is withdrawn, and no event comes; 0: events come
int weft_take_back(weft_engine *e, uint64_t id, uint64_t pieces);
void weft_strays(weft_engine *e);             // bytes may come that nobody expects
int weft_sending(weft_engine *e);              // sends that are not complete
int weft_active(weft_engine *e);               // entries of outstanding requests
void weft_poll(weft_engine *e, int spins);
void weft_look(weft_number engine, int spins); // weft_poll of one who is not the watch

// weft_watch starts the watch: a thread that sleeps and looks, and calls weftWatched with the seat
// when there are events, or work is queued, and weftFaded as the last thing, when it is stopped,
// without the seat. Returns an error number.
int weft_watch(weft_engine *e, uintptr_t handle, uint64_t longest_ns);
void weft_kick(weft_engine *e);

// In Go.
void weftWatched(uintptr_t handle);
void weftFaded(uintptr_t handle);

// pieces of a transfer of n bytes
uint64_t weft_pieces(uint64_t n);

#endif
