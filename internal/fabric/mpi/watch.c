//go:build mpi

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "state.h"

#include <sched.h>
#include <signal.h>
#include <time.h>

#ifdef __linux__
#include <sys/prctl.h>
#endif

// The watch polls while no goroutine does.

static uint64_t now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + t.tv_nsec;
}

// sleep_until_woken sleeps for ns nanoseconds, or until weft_wake_watch. It returns whether it was
// woken.
static int sleep_until_woken(weft_engine *e, uint64_t ns) {
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
	while (!e->woken && err == 0) {
#ifdef __APPLE__
		err = pthread_cond_timedwait_relative_np(&e->cond, &e->mu, &t);
#else
		err = pthread_cond_timedwait(&e->cond, &e->mu, &t);
#endif
	}
	int woken = e->woken;
	e->woken = 0;
	pthread_mutex_unlock(&e->mu);
	return woken;
}

void weft_wake_watch(weft_engine *e) {
	pthread_mutex_lock(&e->mu);
	e->woken = 1;
	pthread_cond_signal(&e->cond);
	pthread_mutex_unlock(&e->mu);
}

enum {
	SHORTEST = 20 * 1000, // ns
	AFTER_ACTIVITY = 250 * 1000,  // ns: sleep after others have begun something, or polled
	// ns: sleep while a goroutine polls that wakes the watch if it gives up
	WHILE_POLLED = 1000 * 1000,
	LONG_SLEEP = 200 * 1000 // ns: from here on, a goroutine that begins something wakes the watch
};

static void *watch(void *arg) {
	weft_engine *e = arg;
	weft_shared *s = e->shared;
	uintptr_t handle = e->handle;
#ifdef __linux__
	prctl(PR_SET_TIMERSLACK, 1000UL); // ns; of this thread only
#endif
	uint64_t last = now(); // when something last happened
	uint32_t activity = LOAD(&s->activity);
	while (!LOAD(&s->stop)) {
		uint32_t was = 0;
		if (__atomic_compare_exchange_n(&s->lock, &was, 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
			int queued = LOAD(&s->queued);
			int left = e->report.n > 0; // the goroutine that has the turn will come for it
			if (!queued && !left)
				weft_poll(e, 0);
			if (queued || e->report.n > 0) {
				weftWatchFound(handle); // releases the lock
				last = now();
				if (left)
					sleep_until_woken(e, SHORTEST);
				continue;
			}
			STORE(&s->lock, 0);
			if (LOAD(&s->queued))
				continue;
		}
		uint64_t t = now();
		uint32_t seen = LOAD(&s->activity);
		uint64_t ns;
		if (LOAD(&s->polled)) {
			activity = seen;
			last = t;
			ns = WHILE_POLLED;
		} else if (seen != activity) {
			activity = seen;
			last = t;
			ns = AFTER_ACTIVITY;
		} else {
			ns = (t - last) / 8;
			if (ns < SHORTEST)
				ns = SHORTEST;
		}
		if (ns > e->max_sleep)
			ns = e->max_sleep;
		__atomic_store_n(&s->sleeps, s->sleeps + 1, __ATOMIC_RELAXED);
		if (ns == 0) {
			sched_yield();
			continue;
		}
		int long_sleep = t != last && ns >= LONG_SLEEP;
		if (long_sleep) {
			STORE(&s->long_sleep, 1);
			// A goroutine that has begun something without seeing long_sleep is seen here.
			if (LOAD(&s->activity) != activity || LOAD(&s->queued)) {
				STORE(&s->long_sleep, 0);
				continue;
			}
		}
		if (sleep_until_woken(e, ns))
			last = now();
		if (long_sleep)
			STORE(&s->long_sleep, 0);
	}
	weftWatchEnded(handle); // e may be gone from here on
	return NULL;
}

int weft_watch(weft_engine *e, uintptr_t handle, uint64_t max_sleep) {
	// Signals of the program are for threads that Go has made. This thread takes only those of
	// faults, and those that Go sends to its threads.
	static const int open[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGPROF, SIGURG};
	sigset_t blocked, saved;
	pthread_attr_t attr;
	pthread_t id;
	e->handle = handle;
	e->max_sleep = max_sleep;
	sigfillset(&blocked);
	for (size_t i = 0; i < sizeof open / sizeof *open; i++)
		sigdelset(&blocked, open[i]);
	int err = pthread_attr_init(&attr);
	if (err)
		return err;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_sigmask(SIG_SETMASK, &blocked, &saved);
	err = pthread_create(&id, &attr, watch, e);
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	pthread_attr_destroy(&attr);
	return err;
}
