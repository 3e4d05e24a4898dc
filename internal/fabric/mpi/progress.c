//go:build mpi

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

#include "state.h"

#include <sched.h>
#include <stdlib.h>

// Polls for frames and for the ends of operations.

// test_requests tests all outstanding requests. It returns whether there is something to report.
static int test_requests(weft_engine *e) {
	int count = 0;
	int code = MPI_Testsome(e->n, e->req, &count, e->index, e->status);
	if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) {
		e->failed = code;
		return 1;
	}
	if (count == MPI_UNDEFINED || count == 0)
		return 0;
	for (int k = 0; k < count; k++) {
		int i = e->index[k];
		entry *t = &e->ent[i];
		int err = code == MPI_SUCCESS ? MPI_SUCCESS : e->status[k].MPI_ERROR;
		if (code != MPI_SUCCESS && err == MPI_ERR_PENDING)
			continue;
		e->req[i] = MPI_REQUEST_NULL;
		e->sends -= !t->receive;
		if (t->buf) {
			weft_release(e, t->buf);
			if (err != MPI_SUCCESS)
				weft_finish(e, 0, t->peer, 0, err);
			t->buf = NULL;
			continue;
		}
		e->report.under_way--;
		int bytes = 0, cancelled = 0;
		if (t->receive && err == MPI_SUCCESS) {
			MPI_Test_cancelled(&e->status[k], &cancelled);
			if (cancelled)
				err = MPI_ERR_PENDING;
			else
				MPI_Get_count(&e->status[k], MPI_BYTE, &bytes);
		}
		weft_finish(e, t->id, t->peer, bytes, err);
	}
	int n = 0;
	for (int i = 0; i < e->n; i++) {
		if (e->req[i] == MPI_REQUEST_NULL)
			continue;
		if (n != i) {
			e->req[n] = e->req[i];
			e->ent[n] = e->ent[i];
		}
		n++;
	}
	e->n = n;
	return e->over_n > 0;
}

// report_ends makes events of the recorded ends, and of a failure.
static void report_ends(weft_engine *e) {
	weft_report *d = &e->report;
	if (e->failed && d->n < WEFT_BATCH) {
		d->ev[d->n++] = (weft_event){.kind = WEFT_FAILED, .peer = -1, .code = e->failed};
		e->failed = 0;
	}
	while (e->over_at < e->over_n && d->n < WEFT_BATCH) {
		ended *o = &e->over[e->over_at++];
		d->ev[d->n++] = (weft_event){.kind = WEFT_BULK, .id = o->id, .bytes = o->bytes, .peer = o->peer, .code = o->code};
	}
	if (e->over_at == e->over_n)
		e->over_at = e->over_n = 0;
	e->turn = 0;
}

// repost posts the receives of the delivered frames again. It returns whether that was possible.
static int repost(weft_engine *e) {
	for (; e->held > 0; e->held--) {
		int code = weft_post_slot(e, e->head);
		if (code != MPI_SUCCESS) {
			e->posted[e->head] = MPI_REQUEST_NULL;
			e->live = 0; // their order is lost
			e->failed = code;
			return 0;
		}
		e->head = e->head + 1 == e->slots ? 0 : e->head + 1;
	}
	return 1;
}

// take_frame makes an event of the oldest frame that has none yet. It returns whether there is such
// a frame.
static int take_frame(weft_engine *e) {
	weft_report *d = &e->report;
	int i = e->head + e->held;
	if (i >= e->slots)
		i -= e->slots;
	MPI_Status st;
	int flag = 0;
	int code = MPI_Test(&e->posted[i], &flag, &st);
	if (code == MPI_SUCCESS && !flag)
		return 0;
	weft_event *ev = &d->ev[d->n++];
	e->turn++;
	if (code != MPI_SUCCESS) {
		*ev = (weft_event){.kind = WEFT_FAILED, .peer = flag && st.MPI_SOURCE >= 0 && st.MPI_SOURCE < e->size ? st.MPI_SOURCE : -1, .code = code};
		e->held += e->posted[i] == MPI_REQUEST_NULL;
		return 1;
	}
	int bytes = 0;
	MPI_Get_count(&st, MPI_BYTE, &bytes);
	ev->kind = WEFT_FRAME;
	ev->peer = st.MPI_SOURCE;
	ev->tag = st.MPI_TAG;
	ev->bytes = bytes;
	ev->data = e->ring + i * e->stride;
	e->held++;
	return 1;
}

// drop_stray receives a message that is not expected any more, so that its sender can end it.
static void drop_stray(weft_engine *e) {
	MPI_Message m;
	MPI_Status st;
	int flag = 0, bytes = 0;
	if (MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, e->bulk, &flag, &m, &st) != MPI_SUCCESS || !flag)
		return;
	MPI_Get_count(&st, MPI_BYTE, &bytes);
	void *sink = malloc(bytes ? bytes : 1);
	MPI_Mrecv(sink, sink ? bytes : 0, MPI_BYTE, &m, MPI_STATUS_IGNORE);
	free(sink);
}

// weft_poll polls until there are events, which it puts into the report, or operations are queued,
// or it has polled spins times more.
void weft_poll(weft_engine *e, int spins) {
	weft_report *d = &e->report;
	d->n = 0;
	if (e->held)
		repost(e);
	// Frames are polled first, since a goroutine may wait for one. But the transfers are polled,
	// too, while frames keep arriving.
	if (e->n > 0 && e->turn >= BULK_EVERY)
		test_requests(e);
	for (int i = 0;; i++) {
		if (e->failed || e->over_n > 0) {
			report_ends(e);
			break;
		}
		if (e->live && take_frame(e)) {
			// A frame that was there at the first poll may be one of many. A frame that arrives
			// later, as in a ping-pong, rarely is, and another test would cost time.
			if (i == 0)
				while (d->n < WEFT_BATCH && e->live && take_frame(e))
					;
			break;
		}
		e->turn = 0;
		if (e->n > 0 && test_requests(e))
			continue;
		if (++e->idle >= STRAYS_EVERY && e->strays) {
			e->idle = 0;
			drop_stray(e);
		}
		if (i >= spins || LOAD(&e->shared->queued))
			return;
		if (++e->polls % e->yield == 0)
			sched_yield();
		else
			RELAX();
	}
	e->idle = 0;
}

void weft_poll_go(weft_number engine, int spins) {
	weft_engine *e = (weft_engine *)engine;
	__atomic_store_n(&e->shared->activity, e->shared->activity + 1, __ATOMIC_RELAXED);
	weft_poll(e, spins);
}
