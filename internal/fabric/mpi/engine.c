//go:build mpi

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "engine.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/prctl.h>
#endif

#if defined(__x86_64__) || defined(__i386__)
#define RELAX() __builtin_ia32_pause()
#else
#define RELAX() ((void)0)
#endif

#define LOAD(p) __atomic_load_n((p), __ATOMIC_SEQ_CST)
#define STORE(p, v) __atomic_store_n((p), (v), __ATOMIC_SEQ_CST)

enum {
	SMALL = 512,        // bytes of a small send buffer
	ALONE = 512,        // polls between two offers of the processor, if each rank of this machine has one,
	CROWDED = 8,        // and if not
	BULK_EVERY = 8,     // events between two looks at the transfers while frames keep coming
	STRAYS_EVERY = 16,  // idle polls between two looks for bytes that nobody expects
	PIECE = 1 << 30     // bytes of one MPI message
};

// A send buffer. Small ones and large ones have lists of their own.
typedef struct buffer {
	struct buffer *next;
	int large;
	char bytes[];
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
	weft_event event;
	MPI_Comm frames, bulk;
	int rank, size;

	// Receives of frames: a ring. MPI matches them in the order in which they were posted.
	int slots, frame;
	size_t stride;
	char *ring;
	MPI_Request *posted;
	int head;
	int held; // the head's bytes are being used; it is posted again by the next poll
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

	buffer *small, *large;
	int turn;   // events since the last look at the transfers
	unsigned polls, yield;
	int idle;   // polls without an event
	int failed; // code of a failure of none in particular
	int strays; // something was cancelled: bytes may come that nobody expects

	// The watch's bed.
	pthread_mutex_t mu;
	pthread_cond_t cond;
	int kicked;
};

// ---- process-wide

// weft_init initialises MPI. What the library has put in place of Go's signal handlers is taken out again: Go's make
// panics of faults, and need a stack of their own.
int weft_init(int *provided, int *rank, int *size, int *tag_ub, int *was) {
	struct sigaction saved[65];
	int have[65] = {0};
	int code = MPI_Initialized(was);
	if (code == MPI_SUCCESS && !*was) {
		for (int s = 1; s < 65; s++)
			have[s] = sigaction(s, NULL, &saved[s]) == 0 && saved[s].sa_handler != SIG_DFL && saved[s].sa_handler != SIG_IGN;
		code = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, provided);
		for (int s = 1; s < 65; s++)
			if (have[s])
				sigaction(s, &saved[s], NULL);
	} else if (code == MPI_SUCCESS) {
		code = MPI_Query_thread(provided);
	}
	if (code != MPI_SUCCESS)
		return code;
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	MPI_Comm_rank(MPI_COMM_WORLD, rank);
	MPI_Comm_size(MPI_COMM_WORLD, size);
	void *v = NULL;
	int ok = 0;
	MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &v, &ok);
	*tag_ub = ok ? *(int *)v : 32767;
	return MPI_SUCCESS;
}

int weft_error_text(int code, char *text, int *cls) {
	int n = 0;
	if (MPI_Error_class(code, cls) != MPI_SUCCESS || MPI_Error_string(code, text, &n) != MPI_SUCCESS)
		return 0;
	return n;
}

int weft_lengths(int mine, int *all) { return MPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD); }

int weft_gather(const char *mine, int n, char *all, const int *counts, const int *displacements) {
	return MPI_Allgatherv(mine, n, MPI_BYTE, all, counts, displacements, MPI_BYTE, MPI_COMM_WORLD);
}

uint64_t weft_pieces(uint64_t n) { return (n + PIECE - 1) / PIECE; }

// ---- opening and closing

int weft_open(weft_engine **out, weft_shared *shared, const int *ranks, int n, int slots, int frame, uint64_t *exchange) {
	MPI_Group world = MPI_GROUP_NULL, group = MPI_GROUP_NULL;
	MPI_Comm c = MPI_COMM_NULL;
	weft_engine *e = calloc(1, sizeof *e);
	if (!e)
		return MPI_ERR_NO_MEM;
	e->shared = shared;
	e->frames = e->bulk = MPI_COMM_NULL;
	e->slots = slots;
	e->frame = frame;
	e->stride = ((size_t)frame + 63) & ~(size_t)63;
	e->posted = malloc(slots * sizeof *e->posted);
	if (!e->posted || posix_memalign((void **)&e->ring, 4096, e->stride * slots)) {
		free(e->posted);
		free(e);
		return MPI_ERR_NO_MEM;
	}
	pthread_mutex_init(&e->mu, NULL);
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
#ifdef __linux__
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
#endif
	pthread_cond_init(&e->cond, &attr);
	pthread_condattr_destroy(&attr);

	int code = MPI_Comm_group(MPI_COMM_WORLD, &world);
	if (code == MPI_SUCCESS)
		code = MPI_Group_incl(world, n, ranks, &group);
	if (code == MPI_SUCCESS)
		code = MPI_Comm_create_group(MPI_COMM_WORLD, group, 0, &c);
	if (code == MPI_SUCCESS)
		code = MPI_Comm_set_errhandler(c, MPI_ERRORS_RETURN);
	if (code == MPI_SUCCESS) {
		e->frames = c;
		code = MPI_Comm_dup(c, &e->bulk);
	}
	if (code == MPI_SUCCESS)
		code = MPI_Comm_set_errhandler(e->bulk, MPI_ERRORS_RETURN);
	if (code == MPI_SUCCESS) {
		MPI_Comm_rank(c, &e->rank);
		MPI_Comm_size(c, &e->size);
		code = MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, exchange, 4, MPI_UINT64_T, c);
	}
	if (code == MPI_SUCCESS) {
		MPI_Comm near;
		int local = 1;
		e->yield = CROWDED;
		if (MPI_Comm_split_type(c, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &near) == MPI_SUCCESS && near != MPI_COMM_NULL) {
			MPI_Comm_size(near, &local);
			MPI_Comm_free(&near);
			if (local <= sysconf(_SC_NPROCESSORS_ONLN))
				e->yield = ALONE;
		}
	}
	if (world != MPI_GROUP_NULL)
		MPI_Group_free(&world);
	if (group != MPI_GROUP_NULL)
		MPI_Group_free(&group);
	*out = e;
	if (code != MPI_SUCCESS)
		weft_close(e, 1);
	return code;
}

static int post_slot(weft_engine *e, int i) {
	return MPI_Irecv(e->ring + i * e->stride, e->frame, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, e->frames, &e->posted[i]);
}

void weft_post(weft_engine *e) {
	for (int i = 0; i < e->slots; i++)
		if (post_slot(e, i) != MPI_SUCCESS)
			e->posted[i] = MPI_REQUEST_NULL;
	e->live = 1;
}

static void free_list(buffer *b) {
	while (b) {
		buffer *next = b->next;
		free(b);
		b = next;
	}
}

void weft_close(weft_engine *e, int orderly) {
	if (!orderly)
		return; // MPI may still read and write all of this
	// The held slot is not posted; the others are, and nothing comes any more.
	for (int i = 0; e->live && i < e->slots; i++)
		if (e->posted[i] != MPI_REQUEST_NULL && !(e->held && i == e->head)) {
			MPI_Cancel(&e->posted[i]);
			MPI_Wait(&e->posted[i], MPI_STATUS_IGNORE);
		}
	e->live = 0;
	if (e->bulk != MPI_COMM_NULL)
		MPI_Comm_free(&e->bulk);
	if (e->frames != MPI_COMM_NULL)
		MPI_Comm_free(&e->frames);
	free_list(e->small);
	free_list(e->large);
	free(e->posted);
	free(e->ring);
	free(e->req);
	free(e->ent);
	free(e->index);
	free(e->status);
	free(e->over);
}

void weft_free(weft_engine *e) {
	pthread_cond_destroy(&e->cond);
	pthread_mutex_destroy(&e->mu);
	free(e);
}

weft_event *weft_events(weft_engine *e) { return &e->event; }

// ---- starting

static int grow(weft_engine *e) {
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

static void release(weft_engine *e, buffer *b) {
	buffer **list = b->large ? &e->large : &e->small;
	b->next = *list;
	*list = b;
}

int weft_send(weft_engine *e, int dst, int tag, const char *head, int hn, const char *data, int dn) {
	int large = hn + dn > SMALL;
	buffer **list = large ? &e->large : &e->small;
	buffer *b = *list;
	if (b) {
		*list = b->next;
	} else {
		b = malloc(sizeof *b + (large ? e->frame : SMALL));
		if (!b)
			return MPI_ERR_NO_MEM;
		b->large = large;
	}
	if (!grow(e)) {
		release(e, b);
		return MPI_ERR_NO_MEM;
	}
	memcpy(b->bytes, head, hn);
	if (dn)
		memcpy(b->bytes + hn, data, dn);
	MPI_Request r;
	int code = MPI_Isend(b->bytes, hn + dn, MPI_BYTE, dst, tag, e->frames, &r);
	int done = 0;
	if (code == MPI_SUCCESS)
		code = MPI_Test(&r, &done, MPI_STATUS_IGNORE);
	if (code != MPI_SUCCESS || done) {
		release(e, b);
		return code;
	}
	e->req[e->n] = r;
	e->ent[e->n] = (entry){.buf = b, .peer = dst};
	e->n++;
	e->sends++;
	return MPI_SUCCESS;
}

static void add(weft_engine *e, MPI_Request r, int peer, uint64_t id, int receive) {
	e->req[e->n] = r;
	e->ent[e->n] = (entry){.id = id, .peer = peer, .receive = receive};
	e->n++;
	e->sends += !receive;
}

// finish tells the end of a piece.
static void finish(weft_engine *e, uint64_t id, int peer, uint64_t bytes, int code) {
	if (e->over_n == e->over_cap) {
		int cap = e->over_cap ? 2 * e->over_cap : 64;
		ended *o = realloc(e->over, cap * sizeof *o);
		if (!o)
			abort(); // a completion that cannot be told is a hang
		e->over = o;
		e->over_cap = cap;
	}
	e->over[e->over_n++] = (ended){id, bytes, peer, code};
}

// weft_push begins to send a transfer. Each of its pieces ends by an event of its own, also those that could not begin.
int weft_push(weft_engine *e, int dst, int tag, const char *data, uint64_t n, uint64_t id) {
	int code = MPI_SUCCESS;
	for (uint64_t off = 0; off < n; off += PIECE) {
		int part = n - off < PIECE ? (int)(n - off) : PIECE;
		MPI_Request r;
		if (code == MPI_SUCCESS && !grow(e))
			code = MPI_ERR_NO_MEM;
		if (code == MPI_SUCCESS)
			code = MPI_Isend(data + off, part, MPI_BYTE, dst, tag, e->bulk, &r);
		if (code == MPI_SUCCESS)
			add(e, r, dst, id, 0);
		else
			finish(e, id, dst, 0, code);
	}
	return code;
}

int weft_expect(weft_engine *e, int src, int tag, char *data, uint64_t n, uint64_t id) {
	int code = MPI_SUCCESS;
	for (uint64_t off = 0; off < n; off += PIECE) {
		int part = n - off < PIECE ? (int)(n - off) : PIECE;
		MPI_Request r;
		if (code == MPI_SUCCESS && !grow(e))
			code = MPI_ERR_NO_MEM;
		if (code == MPI_SUCCESS)
			code = MPI_Irecv(data + off, part, MPI_BYTE, src, tag, e->bulk, &r);
		if (code == MPI_SUCCESS)
			add(e, r, src, id, 1);
		else
			finish(e, id, src, 0, code);
	}
	return code;
}

// weft_take_back withdraws an expectation, if no byte of it has been matched. Cancelling a receive is local: it is cancelled, or it has met
// its message and ends when that is here.
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
				finish(e, id, e->ent[i].peer, 0, code);
			} else if (flag) {
				int bytes = 0;
				keep = 0;
				MPI_Test_cancelled(&st, &cancelled);
				if (!cancelled)
					MPI_Get_count(&st, MPI_BYTE, &bytes);
				if (!cancelled || have < pieces)
					finish(e, id, e->ent[i].peer, bytes, cancelled ? MPI_ERR_PENDING : MPI_SUCCESS);
				else
					gone++;
			}
		}
		if (keep) {
			e->req[n] = e->req[i];
			e->ent[n] = e->ent[i];
			n++;
		}
	}
	e->n = n;
	if (gone == pieces)
		return 1;
	for (; gone > 0; gone--)
		finish(e, id, -1, 0, MPI_ERR_PENDING);
	return 0;
}

void weft_strays(weft_engine *e) { e->strays = 1; }
int weft_sending(weft_engine *e) { return e->sends; }
int weft_active(weft_engine *e) { return e->n; }

// ---- progress

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
			release(e, t->buf);
			if (err != MPI_SUCCESS)
				finish(e, 0, t->peer, 0, err);
			t->buf = NULL;
			continue;
		}
		int bytes = 0, cancelled = 0;
		if (t->receive && err == MPI_SUCCESS) {
			MPI_Test_cancelled(&e->status[k], &cancelled);
			if (cancelled)
				err = MPI_ERR_PENDING;
			else
				MPI_Get_count(&e->status[k], MPI_BYTE, &bytes);
		}
		finish(e, t->id, t->peer, bytes, err);
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

// tell makes an event of an ended transfer, or of a failure, if there is one.
static int tell(weft_engine *e) {
	weft_event *ev = &e->event;
	if (e->failed) {
		ev->kind = WEFT_FAILED;
		ev->peer = -1;
		ev->code = e->failed;
		e->failed = 0;
		return 1;
	}
	if (e->over_at == e->over_n)
		return 0;
	ended *o = &e->over[e->over_at++];
	ev->kind = WEFT_BULK;
	ev->id = o->id;
	ev->bytes = o->bytes;
	ev->peer = o->peer;
	ev->code = o->code;
	if (e->over_at == e->over_n)
		e->over_at = e->over_n = 0;
	e->turn = 0;
	e->idle = 0;
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

// weft_poll looks at what is outstanding until there is an event, which it leaves in e->event, the bell rings, or it has looked
// spins times more.
void weft_poll(weft_engine *e, int spins) {
	weft_event *ev = &e->event;
	ev->kind = WEFT_NONE;
	if (e->held) {
		int code = post_slot(e, e->head);
		e->held = 0;
		if (code != MPI_SUCCESS) {
			e->posted[e->head] = MPI_REQUEST_NULL;
			ev->kind = WEFT_FAILED;
			ev->peer = -1;
			ev->code = code;
			return;
		}
		e->head = e->head + 1 == e->slots ? 0 : e->head + 1;
	}
	// Frames come first, since somebody may be waiting for one; but the transfers have their turn while frames keep coming.
	if (e->n > 0 && e->turn >= BULK_EVERY)
		test(e);
	for (int i = 0;; i++) {
		if (tell(e))
			return;
		if (e->live) {
			MPI_Status st;
			int flag = 0;
			int code = MPI_Test(&e->posted[e->head], &flag, &st);
			if (code != MPI_SUCCESS) {
				ev->kind = WEFT_FAILED;
				ev->peer = flag && st.MPI_SOURCE >= 0 && st.MPI_SOURCE < e->size ? st.MPI_SOURCE : -1;
				ev->code = code;
				e->held = e->posted[e->head] == MPI_REQUEST_NULL;
				return;
			}
			if (flag) {
				int bytes = 0;
				MPI_Get_count(&st, MPI_BYTE, &bytes);
				ev->kind = WEFT_FRAME;
				ev->peer = st.MPI_SOURCE;
				ev->tag = st.MPI_TAG;
				ev->bytes = bytes;
				ev->data = e->ring + e->head * e->stride;
				e->held = 1;
				e->turn++;
				e->idle = 0;
				return;
			}
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
}

// ---- the watch

static uint64_t now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + t.tv_nsec;
}

// nap sleeps for a time, or until it is kicked. It returns whether it was.
static int nap(weft_engine *e, uint64_t ns) {
	struct timespec t;
#ifdef __APPLE__
	t.tv_sec = ns / 1000000000u;
	t.tv_nsec = ns % 1000000000u;
#else
	uint64_t until = now() + ns;
	t.tv_sec = until / 1000000000u;
	t.tv_nsec = until % 1000000000u;
#endif
	pthread_mutex_lock(&e->mu);
	int err = 0;
	while (!e->kicked && err == 0) {
#ifdef __APPLE__
		err = pthread_cond_timedwait_relative_np(&e->cond, &e->mu, &t);
#else
		err = pthread_cond_timedwait(&e->cond, &e->mu, &t);
#endif
	}
	int kicked = e->kicked;
	e->kicked = 0;
	pthread_mutex_unlock(&e->mu);
	return kicked;
}

void weft_kick(weft_engine *e) {
	pthread_mutex_lock(&e->mu);
	e->kicked = 1;
	pthread_cond_signal(&e->cond);
	pthread_mutex_unlock(&e->mu);
}

enum {
	SHORTEST = 20 * 1000, // ns
	DRIVEN = 250 * 1000,  // ns: a sleep while others poll
	DEEP = 200 * 1000     // ns: from here on, who begins something kicks
};

int weft_watch(weft_engine *e, uint64_t longest) {
	weft_shared *s = e->shared;
#ifdef __linux__
	prctl(PR_SET_TIMERSLACK, 1000UL); // ns; a thread's own
#endif
	uint64_t last = now(); // when something happened
	uint32_t turns = LOAD(&s->turns);
	for (;;) {
		if (LOAD(&s->stop))
			return 0;
		uint32_t free = 0;
		if (__atomic_compare_exchange_n(&s->seat, &free, 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
			if (LOAD(&s->bell)) {
				e->event.kind = WEFT_BELL;
				return 1;
			}
			weft_poll(e, 0);
			if (e->event.kind != WEFT_NONE)
				return 1;
			STORE(&s->seat, 0);
			if (LOAD(&s->bell))
				continue;
		}
		uint64_t t = now();
		uint32_t seen = LOAD(&s->turns);
		uint64_t ns;
		if (seen != turns) {
			turns = seen;
			last = t;
			ns = DRIVEN;
		} else {
			ns = (t - last) / 8;
			if (ns < SHORTEST)
				ns = SHORTEST;
		}
		if (ns > longest)
			ns = longest;
		__atomic_store_n(&s->waits, s->waits + 1, __ATOMIC_RELAXED);
		if (ns == 0) {
			sched_yield();
			continue;
		}
		int deep = seen == turns && t != last && ns >= DEEP;
		if (deep) {
			STORE(&s->deep, 1);
			// Who has begun something before it saw deep is seen here.
			if (LOAD(&s->turns) != turns || LOAD(&s->bell)) {
				STORE(&s->deep, 0);
				continue;
			}
		}
		if (nap(e, ns))
			last = now();
		if (deep)
			STORE(&s->deep, 0);
	}
}
