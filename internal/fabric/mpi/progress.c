//go:build mpi

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

#include "state.h"

#include <sched.h>
#include <stdlib.h>

// What has become of it.

// test looks at all outstanding requests. It returns whether there is something to tell.
static int test(weft_engine *e) {
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
		e->desk.under_way--;
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

// tell makes events of what has ended, and of a failure.
static void tell(weft_engine *e) {
	weft_desk *d = &e->desk;
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

// again posts the receives of the frames that the last events were of, which nobody uses any more.
// It returns whether that was possible.
static int again(weft_engine *e) {
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

// arrived makes an event of the oldest frame that there is no event of. It returns whether there is
// one.
static int arrived(weft_engine *e) {
	weft_desk *d = &e->desk;
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

// drop receives bytes that nobody expects any more, so that their sender is done with them.
static void drop(weft_engine *e) {
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

// weft_poll looks at what is outstanding until there are events, which it leaves on the desk, the
// bell rings, or it has looked spins times more.
void weft_poll(weft_engine *e, int spins) {
	weft_desk *d = &e->desk;
	d->n = 0;
	if (e->held)
		again(e);
	// Frames come first, since somebody may be waiting for one; but the transfers have their turn
	// while frames keep coming.
	if (e->n > 0 && e->turn >= BULK_EVERY)
		test(e);
	for (int i = 0;; i++) {
		if (e->failed || e->over_n > 0) {
			tell(e);
			break;
		}
		if (e->live && arrived(e)) {
			// A frame that was there before it was waited for is perhaps one of many. The next one
			// of a conversation is not: it costs a look.
			if (i == 0)
				while (d->n < WEFT_BATCH && e->live && arrived(e))
					;
			break;
		}
		e->turn = 0;
		if (e->n > 0 && test(e))
			continue;
		if (++e->idle >= STRAYS_EVERY && e->strays) {
			e->idle = 0;
			drop(e);
		}
		if (i >= spins || LOAD(&e->shared->bell))
			return;
		if (++e->polls % e->yield == 0)
			sched_yield();
		else
			RELAX();
	}
	e->idle = 0;
}

void weft_look(weft_number engine, int spins) {
	weft_engine *e = (weft_engine *)engine;
	__atomic_store_n(&e->shared->turns, e->shared->turns + 1, __ATOMIC_RELAXED);
	weft_poll(e, spins);
}
