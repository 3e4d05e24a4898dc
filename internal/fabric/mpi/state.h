// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Declarations that the C files of this package share.

#ifndef WEFT_MPI_STATE_H
#define WEFT_MPI_STATE_H

#include "engine.h"

#include <pthread.h>

#if defined(__x86_64__) || defined(__i386__)
#define RELAX() __builtin_ia32_pause()
#else
#define RELAX() ((void)0)
#endif

#define LOAD(p) __atomic_load_n((p), __ATOMIC_SEQ_CST)
#define STORE(p, v) __atomic_store_n((p), (v), __ATOMIC_SEQ_CST)

enum {
	// number of polls between two yields of the processor, if each rank of this machine has one,
	ALONE = 1 << 14,
	CROWDED = 8,        // and if not
	BULK_EVERY = 8,     // number of frames between two polls of the transfers, while frames arrive
	STRAYS_EVERY = 16,  // number of idle polls between two searches for stray messages
	PIECE = 1 << 30     // largest number of bytes of one MPI message
};

// A send buffer. Small and large ones have separate lists.
typedef struct buffer {
	struct buffer *next;
	int large;
	_Alignas(8) char bytes[];
} buffer;

// The frame or transfer of an outstanding request.
typedef struct {
	buffer *buf; // of a frame, or NULL
	uint64_t id; // of a transfer
	int peer;
	int receive;
} entry;

typedef struct {
	uint64_t id, bytes;
	int peer, code;
} ended;

struct weft_engine {
	weft_shared *shared;
	weft_report report;
	MPI_Comm frames, bulk;
	int rank, size;

	// Receives of frames: a ring. MPI matches them in the order in which they were posted.
	int slots, frame;
	size_t stride;
	char *ring;
	MPI_Request *posted;
	int head;
	// number of receives, from head on, whose frames are being delivered; the next poll posts them
	// again
	int held;
	int live; // receives are posted

	// Outstanding sends, and receives of transfers.
	int n, cap;
	MPI_Request *req;
	entry *ent;
	int *index;
	MPI_Status *status;
	int sends;

	// Ended pieces that are not reported yet.
	ended *over;
	int over_n, over_at, over_cap;

	buffer *next; // report.out is its bytes
	buffer *small, *large;
	int turn;   // number of frames since the last poll of the transfers
	unsigned polls, yield;
	int idle;   // number of polls without an event
	int failed; // code of a failure that belongs to no particular peer
	int strays; // a receive was cancelled, so bytes may arrive that are not expected

	// The watch, and the condition on which it sleeps.
	uintptr_t handle;
	uint64_t max_sleep;
	pthread_mutex_t mu;
	pthread_cond_t cond;
	int woken;
};

// makes room for one more request; 0: no memory
int weft_grow(weft_engine *e);
// posts a receive of a frame
int weft_post_slot(weft_engine *e, int i);
// takes back a send buffer that MPI is done with
void weft_release(weft_engine *e, buffer *b);
// records the end of a piece, to be reported
void weft_finish(weft_engine *e, uint64_t id, int peer, uint64_t bytes, int code);

#endif
