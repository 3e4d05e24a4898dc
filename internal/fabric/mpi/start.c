//go:build mpi

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

#include "state.h"

#include <stdlib.h>
#include <string.h>

// Begins and takes back operations.

int weft_grow(weft_engine *e) {
	if (e->n < e->cap)
		return 1;
	int cap = e->cap ? 2 * e->cap : 64;
	void *a = realloc(e->req, cap * sizeof *e->req);
	if (a)
		e->req = a;
	void *b = realloc(e->ent, cap * sizeof *e->ent);
	if (b)
		e->ent = b;
	void *c = realloc(e->index, cap * sizeof *e->index);
	if (c)
		e->index = c;
	void *d = realloc(e->status, cap * sizeof *e->status);
	if (d)
		e->status = d;
	if (!a || !b || !c || !d)
		return 0;
	e->cap = cap;
	return 1;
}

void weft_release(weft_engine *e, buffer *b) {
	buffer **list = b->large ? &e->large : &e->small;
	b->next = *list;
	*list = b;
}

// count_activity counts an operation that was begun, and wakes the watch if it sleeps long.
// README.md, "Polling", has the reason for the order (B1).
static void count_activity(weft_engine *e) {
	__atomic_fetch_add(&e->shared->activity, 1, __ATOMIC_SEQ_CST);
	if (LOAD(&e->shared->long_sleep))
		weft_wake_watch(e);
}

static buffer *obtain(weft_engine *e, int large) {
	buffer **list = large ? &e->large : &e->small;
	buffer *b = *list;
	if (b) {
		*list = b->next;
	} else if ((b = malloc(sizeof *b + (large ? e->frame : WEFT_SMALL)))) {
		b->large = large;
	}
	return b;
}

void weft_refill(weft_engine *e) {
	if (!e->next)
		e->next = obtain(e, 0);
	e->report.out = e->next ? e->next->bytes : NULL;
}

// begin sends a buffer. *done: MPI is done with the buffer already.
static int begin(weft_engine *e, int dst, int tag, buffer *b, int n, int *done) {
	MPI_Request r;
	*done = 1;
	if (!weft_grow(e))
		return MPI_ERR_NO_MEM;
	int code = MPI_Isend(b->bytes, n, MPI_BYTE, dst, tag, e->frames, &r);
	if (code != MPI_SUCCESS)
		return code;
	count_activity(e);
	code = MPI_Test(&r, done, MPI_STATUS_IGNORE);
	if (code != MPI_SUCCESS) {
		*done = 1;
		return code;
	}
	if (*done)
		return MPI_SUCCESS;
	e->req[e->n] = r;
	e->ent[e->n] = (entry){.buf = b, .peer = dst};
	e->n++;
	e->sends++;
	return MPI_SUCCESS;
}

int weft_send(weft_number engine, int dst, int tag, int n) {
	weft_engine *e = (weft_engine *)engine;
	int done;
	int code = begin(e, dst, tag, e->next, n, &done);
	if (!done) {
		e->next = NULL;
		weft_refill(e);
	}
	return code;
}

int weft_send_large(weft_engine *e, int dst, int tag, int hn, const char *data, int dn) {
	int done;
	buffer *b = obtain(e, 1);
	if (!b)
		return MPI_ERR_NO_MEM;
	memcpy(b->bytes, e->report.out, hn);
	memcpy(b->bytes + hn, data, dn);
	int code = begin(e, dst, tag, b, hn + dn, &done);
	if (done)
		weft_release(e, b);
	return code;
}

static void add(weft_engine *e, MPI_Request r, int peer, uint64_t id, int receive) {
	e->req[e->n] = r;
	e->ent[e->n] = (entry){.id = id, .peer = peer, .receive = receive};
	e->n++;
	e->sends += !receive;
	e->report.under_way++;
}

// weft_finish records the end of a piece, to be reported.
void weft_finish(weft_engine *e, uint64_t id, int peer, uint64_t bytes, int code) {
	if (e->over_n == e->over_cap) {
		int cap = e->over_cap ? 2 * e->over_cap : 64;
		ended *o = realloc(e->over, cap * sizeof *o);
		if (!o)
			abort(); // without the report, the transfer would never end
		e->over = o;
		e->over_cap = cap;
	}
	e->over[e->over_n++] = (ended){id, bytes, peer, code};
}

// weft_push begins to send a transfer. Each piece ends with its own event, also a piece that could
// not begin.
int weft_push(weft_engine *e, int dst, int tag, const char *data, uint64_t n, uint64_t id) {
	int code = MPI_SUCCESS;
	count_activity(e);
	for (uint64_t off = 0; off < n; off += PIECE) {
		int part = n - off < PIECE ? (int)(n - off) : PIECE;
		MPI_Request r;
		if (code == MPI_SUCCESS && !weft_grow(e))
			code = MPI_ERR_NO_MEM;
		if (code == MPI_SUCCESS)
			code = MPI_Isend(data + off, part, MPI_BYTE, dst, tag, e->bulk, &r);
		if (code == MPI_SUCCESS)
			add(e, r, dst, id, 0);
		else
			weft_finish(e, id, dst, 0, code);
	}
	return code;
}

int weft_expect(weft_engine *e, int src, int tag, char *data, uint64_t n, uint64_t id) {
	int code = MPI_SUCCESS;
	count_activity(e);
	for (uint64_t off = 0; off < n; off += PIECE) {
		int part = n - off < PIECE ? (int)(n - off) : PIECE;
		MPI_Request r;
		if (code == MPI_SUCCESS && !weft_grow(e))
			code = MPI_ERR_NO_MEM;
		if (code == MPI_SUCCESS)
			code = MPI_Irecv(data + off, part, MPI_BYTE, src, tag, e->bulk, &r);
		if (code == MPI_SUCCESS)
			add(e, r, src, id, 1);
		else
			weft_finish(e, id, src, 0, code);
	}
	return code;
}

// weft_take_back withdraws an expectation if MPI has matched no piece of it. Cancelling a receive
// is local: the receive is cancelled, or it has matched its message and ends when that has arrived.
int weft_take_back(weft_engine *e, uint64_t id, uint64_t pieces) {
	uint64_t have = 0, gone = 0;
	e->strays = 1;
	for (int i = 0; i < e->n; i++)
		have += e->ent[i].receive && e->ent[i].id == id;
	int n = 0;
	for (int i = 0; i < e->n; i++) {
		int keep = 1;
		if (e->ent[i].receive && e->ent[i].id == id) {
			MPI_Status st;
			int flag = 0, cancelled = 0;
			MPI_Cancel(&e->req[i]);
			int code = MPI_Test(&e->req[i], &flag, &st);
			if (code != MPI_SUCCESS) {
				keep = 0;
				weft_finish(e, id, e->ent[i].peer, 0, code);
			} else if (flag) {
				int bytes = 0;
				keep = 0;
				MPI_Test_cancelled(&st, &cancelled);
				if (!cancelled)
					MPI_Get_count(&st, MPI_BYTE, &bytes);
				if (!cancelled || have < pieces)
					weft_finish(e, id, e->ent[i].peer, bytes, cancelled ? MPI_ERR_PENDING : MPI_SUCCESS);
				else
					gone++;
			}
		}
		if (keep) {
			e->req[n] = e->req[i];
			e->ent[n] = e->ent[i];
			n++;
		} else {
			e->report.under_way--;
		}
	}
	e->n = n;
	if (gone == pieces)
		return 1;
	for (; gone > 0; gone--)
		weft_finish(e, id, -1, 0, MPI_ERR_PENDING);
	return 0;
}

void weft_expect_strays(weft_engine *e) { e->strays = 1; }
int weft_sending(weft_engine *e) { return e->sends; }
int weft_active(weft_engine *e) { return e->n; }
