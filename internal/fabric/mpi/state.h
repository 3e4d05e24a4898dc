// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// What the C files of this package share.

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
	// polls between two offers of the processor, if each rank of this machine has one,
	ALONE = 1 << 14,
	CROWDED = 8,        // and if not
	BULK_EVERY = 8,     // events between two looks at the transfers while frames keep coming
	STRAYS_EVERY = 16,  // idle polls between two looks for bytes that nobody expects
	PIECE = 1 << 30     // bytes of one MPI message
};

// A send buffer. Small ones and large ones have lists of their own.
typedef struct buffer {
	struct buffer *next;
	int large;
	_Alignas(8) char bytes[];
} buffer;

// What an outstanding request belongs to.
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
	weft_desk desk;
	MPI_Comm frames, bulk;
	int rank, size;

	// Receives of frames: a ring. MPI matches them in the order in which they were posted.
	int slots, frame;
	size_t stride;
	char *ring;
	MPI_Request *posted;
	int head;
	int held; // so many from the head on are being used; they are posted again by the next poll
	int live; // receives are posted

	// Outstanding sends, and receives of transfers.
	int n, cap;
	MPI_Request *req;
	entry *ent;
	int *index;
	MPI_Status *status;
	int sends;

	// Ended transfers that have not been told yet.
	ended *over;
	int over_n, over_at, over_cap;

	buffer *next; // desk.out is its bytes
	buffer *small, *large;
	int turn;   // events since the last look at the transfers
	unsigned polls, yield;
	int idle;   // polls without an event
	int failed; // code of a failure of none in particular
	int strays; // something was cancelled: bytes may come that nobody expects

	// The watch, and its bed.
	uintptr_t handle;
	uint64_t longest;
	pthread_mutex_t mu;
	pthread_cond_t cond;
	int kicked;
};

// room for one more request; 0: no memory
int weft_grow(weft_engine *e);
// posts a receive of a frame
int weft_post_slot(weft_engine *e, int i);
// a send buffer that MPI is done with
void weft_release(weft_engine *e, buffer *b);
// the end of a piece is to be told
void weft_finish(weft_engine *e, uint64_t id, int peer, uint64_t bytes, int code);

#endif
